// Command pages is an example of a generator: for each service it gives a file
// with a page. Built with GOOS=wasip1 GOARCH=wasm it is the module that
// lehr.yaml names, built without it is the same as a native program.
// docs/use/generators.md goes through it.
package main

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/generator"
)

func main() { generator.Main(generate) }

// service is one file of services.
type service struct {
	Name  yaml.Node `yaml:"name"`
	Owner string    `yaml:"owner"`
	Text  string    `yaml:"text"`
}

// generate runs once for each file: in.File() says which.
func generate(input *generator.Input, output *generator.Output) error {
	text, err := input.Read(input.File())
	if err != nil {
		return err
	}
	var s service
	if err := yaml.Unmarshal(text, &s); err != nil {
		output.At(input.File(), 1).Error("write name, owner and text", "%v", err)
		return nil
	}
	if s.Name.Value == "" {
		output.At(input.File(), max(s.Name.Line, 1)).Error("write name: some-name", "the service has no name")
		return nil
	}
	addons := []proto.Message{&intentpb.Labels{Labels: map[string]string{"partition": input.Partition()}}}
	if s.Owner == "" {
		output.At(input.File(), 1).Warn("write owner: team@example.com", "nobody owns %s", s.Name.Value)
	} else {
		addons = append(addons, &intentpb.Owner{Owner: s.Owner})
	}
	path := "/tmp/lehr-pages/" + s.Name.Value
	output.At(input.File(), s.Name.Line).Asset("page/"+s.Name.Value,
		&commandpb.Command{
			Diff:  []string{"/bin/sh", "-c", `test -f "$1" && diff "$1" - || exit 2`, "sh", path},
			Push:  []string{"/bin/sh", "-c", `mkdir -p "$(dirname "$1")" && cat > "$1"`, "sh", path},
			Input: fmt.Sprintf("%s: %s\n", s.Name.Value, s.Text),
		},
		addons...)
	return nil
}
