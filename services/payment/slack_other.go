//go:build !linux

package main

// takeSlack does nothing where the kernel offers nothing.
func takeSlack() {}
