package main

import (
	"errors"
	"fmt"
	"syscall"
)

// The types of file systems that are in memory, by statfs(2).
const (
	tmpfs = 0x01021994
	ramfs = 0x858458f6
)

// errMemory says that nothing is durable there.
var errMemory = errors.New("it is in memory: name a folder on a disk by --dir")

// onDisk is an error where a commit that is durable costs nothing.
func onDisk(dir string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	if fs.Type == tmpfs || fs.Type == ramfs {
		return fmt.Errorf("%s: %w", dir, errMemory)
	}
	return nil
}
