package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// TestMain is the child of the test below, too: a process that takes slack, and
// says what it is then.
func TestMain(m *testing.M) {
	if os.Getenv("SLACK_CHILD") == "" {
		os.Exit(m.Run())
	}
	_, _ = fmt.Print("begun ")
	takeSlack()
	told := make(chan time.Duration)
	go func() {
		runtime.LockOSThread() // and ends with its goroutine
		told <- slack()
	}()
	_, _ = fmt.Println(os.Getpid(), os.Args[1:], <-told, os.Getenv(slackTaken))
}

func TestTakeSlack_ProcessBeginsAgainAsItself(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const inherited = 50 * time.Microsecond
	if !setSlack(inherited) { // the child has that of the thread that starts it
		t.Fatal("the slack is not taken")
	}
	for name, c := range map[string]struct {
		env   string
		begun string
		slack time.Duration
	}{
		"for the first time": {"", "begun begun", timerSlack},
		"again":              {slackTaken + "=1", "begun", inherited},
	} {
		t.Run(name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "one", "two words")
			child.Env = append(os.Environ(), "SLACK_CHILD=1", c.env)
			out, err := child.Output()
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("%s %d [one two words] %v \n", c.begun, child.Process.Pid, c.slack)
			if got := string(out); got != want {
				t.Errorf("the child says %q, want %q", got, want)
			}
		})
	}
}
