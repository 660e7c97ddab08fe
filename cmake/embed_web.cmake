# cmake -DWEB_DIR=... -DOUT=... -P embed_web.cmake: writes OUT, a C++ source with the bytes of every
# file below WEB_DIR (server/web_page.h).
file(GLOB_RECURSE names RELATIVE ${WEB_DIR} ${WEB_DIR}/*.html ${WEB_DIR}/*.css ${WEB_DIR}/*.js
     ${WEB_DIR}/*.svg)
list(SORT names)
set(arrays "")
set(table "")
set(i 0)
foreach(name IN LISTS names)
  file(READ ${WEB_DIR}/${name} hex HEX)
  string(LENGTH "${hex}" n_digits)
  math(EXPR n_bytes "${n_digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "constexpr unsigned char k${i}[] = {${bytes}};\n")
  string(APPEND table
         "    {\"${name}\", {reinterpret_cast<const char*>(k${i}), ${n_bytes}}},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUT} "// Made by cmake/embed_web.cmake.
#include \"server/web_page.h\"

namespace holdfast {
namespace {

${arrays}
}  // namespace

std::span<const WebFile> WebFiles() {
  static const WebFile kFiles[] = {
${table}  };
  return kFiles;
}

}  // namespace holdfast
")
