# cmake -DIN=pg_stmt.c -DOUT=x.c -P weaken_fence.cmake: the statements without their share locks, for
# the proof that the fence's test can fail (RELIABILITY T-10).
file(READ ${IN} text)
string(REPLACE " FOR SHARE OF s" "" weak "${text}")
string(REPLACE " FOR SHARE" "" weak "${weak}")
if(weak STREQUAL text)
    message(FATAL_ERROR "there is no lock to leave out")
endif()
file(WRITE ${OUT} "${weak}")
