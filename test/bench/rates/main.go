// Command rates is the generator that the benchmarks run as a module and as a
// native program: two assets for each file.
package main

import (
	"strings"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/generator"
)

func main() {
	generator.Main(func(input *generator.Input, output *generator.Output) error {
		files := []string{input.File()}
		if input.File() == "" {
			var err error
			if files, err = input.Files(); err != nil {
				return err
			}
		}
		for _, file := range files {
			text, err := input.Read(file)
			if err != nil {
				return err
			}
			name := strings.TrimSpace(strings.TrimPrefix(string(text), "name: "))
			for _, cluster := range []string{"a", "b"} {
				output.At(file, 1).Asset(name+"/"+cluster, &processpb.Job{
					Name: name, Replicas: 3, Binary: "/opt/" + name, Version: "v1",
					Args: []string{"--port={port}", "--cluster=" + cluster}, Env: map[string]string{"MODE": "production"},
				})
			}
		}
		return nil
	})
}
