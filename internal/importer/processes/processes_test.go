package processes

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"lehr.dev/internal/importer"
)

// TestMain lets the test's own program be a server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println(listener.Addr().(*net.TCPAddr).Port)
		_, _ = os.Stdin.Read(make([]byte, 1)) // Until the test ends.
		return
	}
	os.Exit(m.Run())
}

// start runs a program until the test ends.
func start(t *testing.T, environment []string, program string, arguments ...string) (pid, port string) {
	t.Helper()
	command := exec.Command(program, arguments...)
	command.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environment...)
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	if arguments[0] == "serve" {
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		port = strings.TrimSpace(line)
	}
	return strconv.Itoa(command.Process.Pid), port
}

func imported(t *testing.T, arguments ...string) (importer.Import, error) {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	reader := Kind().Bind(flags)
	if err := flags.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	return reader(t.Context(), flags.Args())
}

func TestProcesses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const hush = "hush-hush-9"
	server, port := start(t, []string{"HALL_PASSWORD=" + hush, "B=1", "HOME=/"}, self, "serve", "--rows=3", "a b: 'c'", "--code=processes_test.go", "proc.go", self)
	one, _ := start(t, nil, "/bin/sleep", "3071")
	two, _ := start(t, nil, "/bin/sleep", "3071")
	other, _ := start(t, nil, "/bin/sleep", "3072")
	task, _ := start(t, []string{"LEHR_JOB=hall/west"}, "/bin/sleep", "3073")
	leaky, _ := start(t, nil, self, "serve", "--db-password", hush)

	found, err := imported(t, server, one, two, other, task, leaky)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprint(found.Read, found.LeftOut, found.Hints)
	for name, file := range found.Files {
		all += "\n" + name + "\n" + string(file)
	}
	for _, want := range []string{
		"jobs/sleep.yaml\n", "name: sleep\nreplicas: 2\n", "name: sleep-2\nreplicas: 1\n", "    - \"3072\"\n",
		"    - serve\n    - --rows=3\n    - 'a b: ''c'''\n    - --code=processes_test.go\n    - proc.go\n    - " + self + "\nbase_port: " + port + "\n", ": --code=processes_test.go, proc.go]", "# B HALL_PASSWORD\n", "binary: " + self,
		"process " + task + " (sleep) it is a task of the job hall/west already", "its argument 3 looks like a secret",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("there is no %q in\n%s", want, all)
		}
	}
	if strings.Contains(all, hush) {
		t.Errorf("a secret was copied:\n%s", all)
	}

	found, err = imported(t, "--match", `sleep 307[12]$`)
	if err != nil || len(found.Files) != 3 {
		t.Errorf("by its command line: %v %v", found.Read, err)
	}
	for _, wrong := range [][]string{{}, {"--match", "("}, {"--match", "no such process, surely"}, {"nothing-is-called-so"}, {leaky}} {
		if _, err := imported(t, wrong...); err == nil || strings.Contains(err.Error(), hush) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

func TestSecretArguments(t *testing.T) {
	for line, want := range map[string]int{
		"--port 80 --verbose":                     0,
		"--password-file /run/secret":             0,
		"--password /run/secret --user ann":       0,
		"--token $TOKEN":                          0,
		"--password=hush":                         1,
		"-x --api-key hush":                       3,
		"DB_PASSWORD=hush serve":                  1,
		"--url postgres://me:hush@db/x":           2,
		"--url postgres://me@db/x":                0,
		"-H Authorization:Bearer-hush":            2,
		"--dsn user=me;password=hush":             2,
		"ghp_0123456789012345678901234567890123a": 1,
		"tokens.json --max-tokens=5":              0,
	} {
		if got := secretArgument(strings.Fields(line)); got != want {
			t.Errorf("%s: argument %d, want %d", line, got, want)
		}
	}
}
