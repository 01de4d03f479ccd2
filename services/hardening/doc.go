// Package hardening holds tests only: they are strangers at the doors of the real
// binaries. What they send is broken, huge, endless or too much of it, and no line
// of a log, series of metrics, connection or byte of memory may be theirs to
// spend. The other half is the stop of a busy payment service, which loses
// nothing.
package hardening
