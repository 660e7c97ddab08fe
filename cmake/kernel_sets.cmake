# Each kernel set is the same source compiled for one instruction set, chosen at run time. The
# flags apply to these files only, so the rest of the program stays portable.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mpopcnt -mpclmul -maes)
  set(avx512 ${avx2} -mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx512cd)
  set_source_files_properties(ops/cpu/kernels_avx2.cc PROPERTIES COMPILE_OPTIONS "${avx2}")
  set_source_files_properties(ops/cpu/kernels_avx512.cc PROPERTIES COMPILE_OPTIONS "${avx512}")
  set_source_files_properties(ops/cpu/kernels_avx512vnni.cc PROPERTIES
                              COMPILE_OPTIONS "${avx512};-mavx512vnni")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set_source_files_properties(ops/cpu/kernels_neon.cc PROPERTIES
                              COMPILE_OPTIONS "-march=armv8.2-a+dotprod+crypto")
endif()

# Only optimised builds: without inlining Highway's own templates stay behind as weak symbols.
if(HOLDFAST_TESTS AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT HOLDFAST_SANITIZE)
  add_test(NAME kernel_objects
           COMMAND ${PROJECT_SOURCE_DIR}/tools/check_kernel_objects.sh $<TARGET_OBJECTS:hf_ops>
           COMMAND_EXPAND_LISTS)
endif()
