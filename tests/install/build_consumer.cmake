# Each step fails the test; what would break: the install rules, the exported targets, a header
# that includes one that is not installed.
set(work ${BUILD}/install_test)
file(REMOVE_RECURSE ${work})

function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "failed (${code}): ${ARGV}")
  endif()
endfunction()

step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/prefix)
if(SANITIZE)
  set(sanitize -DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()
step(${CMAKE_COMMAND} -S ${CONSUMER} -B ${work}/build -G Ninja
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${work}/prefix ${sanitize})
step(${CMAKE_COMMAND} --build ${work}/build)
step(${work}/build/consumer ${MODEL})
