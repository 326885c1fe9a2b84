package cli

import (
	"os"
	"path"

	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/fault"
)

func (s *session) schemaCommand() *cobra.Command {
	var definitionFile, sources string
	command := &cobra.Command{
		Use:   "schema [lehr.yaml | TYPE]",
		Short: "Print the JSON Schema of lehr.yaml, or of a type, for editors",
		Long: `Prints the JSON Schema (draft 2020-12) of lehr.yaml, or of a type in YAML or JSON.
Editors complete and check files with it. A type is a built-in one, or one of
the partition that is defined in this folder.`,
		Example: `  lehr schema > lehr.schema.json
  lehr schema WebService > service.schema.json
  lehr schema shop.v1.Shop --definition prod/lehr.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			name, definition := "", definitionFile
			if len(args) > 0 && path.Ext(args[0]) != ".yaml" && path.Ext(args[0]) != ".yml" {
				name = args[0]
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
			schema, findings, err := s.local.JSONSchema(command.Context(), definition, sources, name)
			if err != nil {
				return err
			}
			if len(findings) > 0 {
				f := findings[0]
				return fault.New(fault.Invalid, "the types of %s: %s:%d: %s", definition, f.File, f.Line, f.Message).WithHint("%s", f.Hint)
			}
			return printJSON(s.Out, schema)
		},
	}
	command.Flags().StringVar(&definitionFile, "definition", "", "the definition that has the type (default: lehr.yaml, if there is one)")
	sourcesFlag(command, &sources)
	return command
}
