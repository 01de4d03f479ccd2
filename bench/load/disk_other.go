//go:build !linux

package main

// onDisk believes it.
func onDisk(string) error { return nil }
