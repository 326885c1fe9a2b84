package job

import (
	"os"
	"os/exec"
	"testing"
)

// An exec has a moment in which the process lives and has no environment: the
// old memory is gone, the new one is not laid out. It is that task all along.
func TestATaskIsSeenDuringItsExec(t *testing.T) {
	script := `[ "$1" = 0 ] || exec "$0" -c "$2" "$0" $(($1 - 1)) "$2"; exec sleep 1000`
	command := exec.Command("/bin/sh", "-c", script, "/bin/sh", "3000", script)
	command.Env = []string{variableJob + "=test/exec", variableTask + "=0", variableVersion + "=v1"}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	looks := 0
	for ; ; looks++ {
		p, err := readProcess(command.Process.Pid)
		if err != nil {
			t.Fatalf("look %d at a live process: %v", looks, err)
		}
		if p.argv[0] == "sleep" {
			break
		}
	}
	t.Logf("%d looks", looks)
}
