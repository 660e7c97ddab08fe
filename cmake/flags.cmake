# Flags that every file is built with. -ffp-contract=off is part of the numerics contract
# (docs/exactness.md): a compiler may never turn a*b+c into a fused operation by itself.
add_compile_options(-Wall -Wextra -Werror -Wno-missing-field-initializers -ffp-contract=off -fno-math-errno)
add_compile_definitions(_FILE_OFFSET_BITS=64 BOOST_ASIO_NO_DEPRECATED)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Asio uses fences that g++'s TSan does not model; it says so with a warning.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-tsan>)
endif()
if(HOLDFAST_SANITIZE)
  add_compile_options(-fsanitize=${HOLDFAST_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND HOLDFAST_SANITIZE MATCHES "undefined")
    # clang 14 cannot instrument indirect calls of coroutines ("difference across sections").
    add_compile_options(-fno-sanitize=function)
  endif()
endif()
if(HOLDFAST_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
