package applykeeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lehr.dev/plugins/terraform/tfcommand"
)

// writeState writes a state that Terraform could not, as soon as that can be done. It changes
// nothing but the state, which is of what was done already: so it needs no permit.
func (k *process) writeState(spec Spec, end *End) {
	left := spec.Left
	if left == "" {
		left = filepath.Join(spec.Directory, "errored.tfstate")
	}
	pause := time.Second
	for deadline := time.Now().Add(stateWithin); ; time.Sleep(pause) {
		if _, err := os.Stat(left); err != nil {
			if spec.Plan == "" {
				end.IsApplied = true
			}
			return
		}
		err := syncFile(left)
		if err == nil {
			err = k.pushState(spec, left)
		}
		if errors.Is(err, errOtherState) {
			err = k.pushSuccessor(spec, left, err)
		}
		if err == nil {
			err = os.Remove(left)
		}
		if err == nil {
			end.Reason = "the state, which Terraform could not write at first, is written; " + end.Reason
			end.IsApplied = end.IsApplied || spec.Plan == ""
			return
		}
		log.Printf("writing the state %s: %v", left, err)
		// That another state is there already no later attempt mends: a person decides.
		if time.Now().After(deadline) || spec.Plan == "" || errors.Is(err, errOtherState) {
			end.StateLeft = left
			end.Reason = fmt.Sprintf("the state of what was applied cannot be written, and lies in %s: %v; %s", left, err, end.Reason)
			return
		}
		pause = min(2*pause, 30*time.Second)
	}
}

// syncFile has a file be on the disk: Terraform does not wait for that.
func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// errOtherState says that the backend has a state that the one which was left is no successor
// of. Terraform tells that by words alone.
var errOtherState = errors.New("the backend has another state by now")

// pushSuccessor writes a state that was left with the serial of the one before it, as the backend
// local leaves it when its disk is full: under the next serial, and only if the backend has the
// very state still that the apply began from. Nothing is forced: whoever writes another state
// meanwhile has that serial, too, and this one is refused.
func (k *process) pushSuccessor(spec Spec, left string, refused error) error {
	if spec.StateDigest == "" {
		return refused
	}
	current, err := k.terraform(spec, "state", "pull").Output()
	defer clear(current) // It holds secrets.
	if err != nil {
		return refused
	}
	if digest, err := tfcommand.DigestOf(current); err != nil || digest != spec.StateDigest {
		return refused
	}
	successor, err := withNextSerial(current, left)
	if err != nil {
		return errors.Join(refused, err)
	}
	defer clear(successor)
	path := left + ".next"
	defer os.Remove(path)
	if err := os.WriteFile(path, successor, 0o600); err != nil {
		return err
	}
	return k.pushState(spec, path)
}

// withNextSerial is the state that was left, as the successor of the current one.
func withNextSerial(current []byte, left string) ([]byte, error) {
	content, err := os.ReadFile(left)
	if err != nil {
		return nil, err
	}
	defer clear(content)
	var before, after tfcommand.State
	var all map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(current, &before), json.Unmarshal(content, &after), json.Unmarshal(content, &all)); err != nil {
		return nil, fmt.Errorf("reading the state that was left: %w", err)
	}
	if before.Lineage != after.Lineage || before.Serial != after.Serial {
		return nil, errors.New("it is no successor of the state that the backend has")
	}
	all["serial"] = json.RawMessage(strconv.FormatUint(before.Serial+1, 10))
	return json.Marshal(all)
}

// terraform is a command in the module's folder, in a group of its own.
func (k *process) terraform(spec Spec, arguments ...string) *exec.Cmd {
	command := exec.Command(spec.Binary, arguments...)
	command.Dir, command.Env = spec.Directory, spec.Environment
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command
}

func (k *process) pushState(spec Spec, left string) error {
	terraform := k.terraform(spec, "state", "push", "-no-color", "-lock-timeout=0s", left)
	output, err := terraform.CombinedOutput()
	if err != nil {
		if bytes.Contains(output, []byte("serial")) || bytes.Contains(output, []byte("lineage")) {
			err = errOtherState
		}
		return errors.Join(err, errors.New(strings.TrimSpace(string(output[:min(len(output), 2000)]))))
	}
	return nil
}
