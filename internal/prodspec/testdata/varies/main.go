// Command varies is a generator that takes what it should not: its argument says
// what. Tests build it for WASI and for this machine.
package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/generator"
)

func main() {
	generator.Main(func(in *generator.Input, out *generator.Output) error {
		files, err := in.Files()
		if err != nil {
			return err
		}
		owner := "ann"
		switch in.Arguments()[0] {
		case "time":
			owner = time.Now().Format(time.RFC3339)
		case "random":
			owner = rand.Text()
		case "map":
			owner = ""
			for key := range numbers() {
				owner += fmt.Sprint(key, " ")
			}
		case "come-and-go":
			out.Asset("number/"+strings.ToLower(rand.Text()), &intentpb.Owner{Owner: "x"})
		case "look":
			owner = strings.Join(append(files, look()...), ", ")
		case "entry":
			return entry(in, out, files)
		case "others":
			assets, err := in.Assets()
			if err != nil {
				return err
			}
			for _, asset := range assets {
				payload, labels := &intentpb.Owner{}, &intentpb.Labels{}
				if err := in.Open(asset, payload, labels); err != nil {
					return err
				}
				out.Asset("copy/"+asset.ID, payload, labels)
			}
		}
		out.Asset("owner/x", &intentpb.Owner{Owner: owner})
		return nil
	})
}

// entry makes an asset of the one that the run is for, and of the other files.
func entry(in *generator.Input, out *generator.Output, files []string) error {
	var said struct {
		Owner string
		Fail  bool
		Wrong bool
	}
	if err := json.Unmarshal(in.Value(), &said); err != nil {
		return err
	}
	if said.Fail {
		return errors.New("no owner will have it")
	}
	if said.Wrong {
		out.At("", 0).Error("name another", "%s has the wrong owner", in.Key())
	}
	shared := ""
	for _, name := range files {
		text, err := in.Read(name)
		if err != nil {
			return err
		}
		shared += name + ": " + string(text)
	}
	out.Asset("owner/"+in.Key(), &intentpb.Owner{Owner: said.Owner}, &intentpb.Labels{Labels: map[string]string{"shared": shared, "file": in.File()}})
	return nil
}

func numbers() map[int]bool {
	m := map[int]bool{}
	for i := range 50 {
		m[i] = true
	}
	return m
}

// look says what of this machine can be seen, or changed.
func look() (found []string) {
	if len(os.Environ()) > 0 {
		found = append(found, fmt.Sprint("environment ", os.Environ()))
	}
	for _, name := range []string{"/etc/passwd", "/etc/hostname", "../../../../../etc/passwd", "/proc/self/environ", "/proc/1/cmdline", "/dev/urandom", "/usr", "/root", "link/passwd"} {
		if _, err := os.Stat(name); err == nil {
			found = append(found, "file "+name)
		}
	}
	for _, name := range []string{"a.yaml", "new", "/new", "/.lehr/new"} {
		if file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
			file.Close()
			found = append(found, "could write "+name)
		}
	}
	if os.Remove("a.yaml") == nil || os.Rename("a.yaml", "b.yaml") == nil || os.Symlink("/etc", "link") == nil {
		found = append(found, "could change its folder")
	}
	for _, address := range []string{"127.0.0.1:22", "1.1.1.1:53"} {
		if _, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			found = append(found, "network "+address)
		}
	}
	return found
}
