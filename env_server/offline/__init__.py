"""Tools for stored worlds that no server has open: verify, dump-log, replay, upgrade. None of them deletes anything.

commands      the command line of `ecumene offline`
directories   which directories an argument means
verify        reads all there is of a world and checks it against itself
contents      what verify has read: rows, records and what does not fit
comparison    two states of a world side by side
dump_log      the log as lines of JSON
replay        the state again from the log alone, into a new directory when asked
upgrade       an earlier storage format to the present one
"""
