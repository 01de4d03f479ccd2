package corelink

// OverTLS is overTLS, on a dialer of a test's own.
var OverTLS = overTLS
