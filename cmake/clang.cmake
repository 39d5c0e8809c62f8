# Native builds use the newest installed Clang, the same front end as Emscripten's.
foreach(version -21 -20 -19 "")
  find_program(HEED_CLANG clang++${version})
endforeach()
if(NOT HEED_CLANG)
  message(FATAL_ERROR "no clang++; `npm run setup` installs it on Debian")
endif()
set(CMAKE_CXX_COMPILER ${HEED_CLANG})
