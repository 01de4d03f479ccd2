//go:build !linux

package main

import "os/exec"

// dieWithParent does nothing where the kernel offers nothing.
func dieWithParent(*exec.Cmd) {}

// onDisk believes it.
func onDisk(string) error { return nil }
