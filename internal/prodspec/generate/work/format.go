package work

import "slices"

// Format is what a renderer reads: what Program names for the language Render.
type Format struct {
	Name string
	// Program: its renderer is a program of its own, lehr-NAME, for it stands on
	// heavy libraries.
	Program bool
}

// Formats that there are renderers for.
var Formats = []Format{
	{Name: "assets"},
	{Name: "helm", Program: true},
	{Name: "http"},
	{Name: "kubernetes"},
	{Name: "kustomize", Program: true},
	{Name: "sql-schema"},
	{Name: "terraform"},
}

// FormatNames lists them.
func FormatNames() []string {
	names := make([]string, len(Formats))
	for i, format := range Formats {
		names[i] = format.Name
	}
	return names
}

// RendererPrograms are the programs that formats are rendered by.
func RendererPrograms() (names []string) {
	for _, format := range Formats {
		if format.Program {
			names = append(names, ProgramOf(format.Name))
		}
	}
	return names
}

// ProgramOf a format, where its renderer is one of its own.
func ProgramOf(format string) string { return "lehr-" + format }

// Apart reports whether the renderer of a format is a program of its own.
func Apart(format string) bool { return slices.Contains(Formats, Format{Name: format, Program: true}) }
