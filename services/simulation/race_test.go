//go:build race

package simulation

// raced: the race detector shuffles what is woken at one moment.
const raced = true
