package cli

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// commonPolicyFile is the name of common policies, of which there is a JSON Schema, too.
const commonPolicyFile = "lehr-policy.yaml"

func (s *session) schemaCommand() *cobra.Command {
	var definitionFile, sources string
	var references bool
	command := &cobra.Command{
		Use:   "schema [lehr.yaml | lehr-policy.yaml | TYPE]",
		Short: "Print the JSON Schema of lehr.yaml, lehr-policy.yaml or a type, for editors",
		Long: `Print the JSON Schema (draft 2020-12) of lehr.yaml, of a common policy, or of a type
in YAML or JSON. Editors complete and check files with it. A type is built in, or
belongs to the partition that is defined in this folder.

With --references, list the fields of a type that name other assets.
"lehr get assets --uses ASSET" follows these.`,
		Example: `  lehr schema > lehr.schema.json
  lehr schema lehr-policy.yaml > policy.schema.json
  lehr schema WebService > service.schema.json
  lehr schema shop.v1.Shop --definition prod/lehr.yaml
  lehr schema Balancer --references`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			name, definition := "", definitionFile
			if len(args) > 0 && path.Ext(args[0]) != ".yaml" && path.Ext(args[0]) != ".yml" {
				name = args[0]
			}
			if len(args) > 0 && path.Base(args[0]) == commonPolicyFile {
				name = commonPolicyFile
			}
			if _, err := os.Stat("lehr.yaml"); err == nil && definitionFile == "" {
				definition = "lehr.yaml"
			}
			if definition != "" {
				var err error
				if definition, err = definitionPath(definition); err != nil {
					return err
				}
			}
			if references && name == "" {
				return fault.New(fault.Invalid, "--references is of a type, and none is named").WithHint("lehr schema TYPE --references")
			}
			if references {
				fields, findings, err := s.local.ReferenceFields(command.Context(), definition, sources, name)
				if err = cmp.Or(err, typesError(definition, findings)); err != nil {
					return err
				}
				return s.printReferenceFields(name, fields)
			}
			jsonSchema, findings, err := s.local.JSONSchema(command.Context(), definition, sources, name)
			if err = cmp.Or(err, typesError(definition, findings)); err != nil {
				return err
			}
			return printJSON(s.Out, jsonSchema)
		},
	}
	command.Flags().StringVar(&definitionFile, "definition", "", "the definition that has the type (default: lehr.yaml, if there is one)")
	command.Flags().BoolVar(&references, "references", false, "list the fields of the type that name other assets")
	sourcesFlag(command, &sources)
	return command
}

// typesError is the first finding of a partition's types, as an error.
func typesError(definition string, findings []intent.Finding) error {
	if len(findings) == 0 {
		return nil
	}
	f := findings[0]
	return fault.New(fault.Invalid, "the types of %s: %s:%d: %s", definition, f.File, f.Line, f.Message).WithHint("%s", f.Hint)
}

func (s *session) printReferenceFields(name string, fields []schema.ReferenceField) error {
	if s.json() {
		return printJSON(s.Out, slices.Clip(append([]schema.ReferenceField{}, fields...)))
	}
	if len(fields) == 0 {
		fmt.Fprintf(s.Out, "No field of %s names other assets.\n", plain(name))
		return nil
	}
	rows := [][]string{}
	for _, field := range fields {
		read := "-"
		if field.Read {
			read = "yes"
		}
		rows = append(rows, []string{field.Path, cmp.Or(strings.Join(field.Types, ", "), "any"), read})
	}
	table(s.Out, []string{"FIELD", "NAMES", "READ BY THE PLUGIN"}, rows)
	return nil
}
