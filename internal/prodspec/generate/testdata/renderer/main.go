// Command renderer is what tests put in the place of a renderer that is a program.
package main

import (
	"os"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/generator"
)

// colour is set when it is built, to have two of them.
var colour string

func main() { generator.Main(render) }

// render tells what it was given, and what it sees of the machine.
func render(in *generator.Input, out *generator.Output) error {
	options, err := in.Options("colour")
	if err != nil {
		return err
	}
	files, err := in.Files()
	if err != nil {
		return err
	}
	told := map[string]string{"files": strings.Join(files, " "), "colour": strings.Join(options["colour"], " "), "build": colour, "environment": strings.Join(os.Environ(), " ")}
	if _, err := os.Stat("/etc"); err == nil {
		told["machine"] = "seen"
	}
	out.At(files[0], 1).Asset("told", &intentpb.Labels{Labels: told})
	return nil
}
