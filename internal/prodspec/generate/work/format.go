package work

import "slices"

// Format is what a renderer reads: what Program names for the language Render.
type Format struct {
	Name string
	// Program: its renderer is a program of its own, lehr-NAME, for it stands on
	// heavy libraries.
	Program bool
	// Check: it is no renderer but a checking program, which gives findings and no assets.
	Check bool
}

// Formats that there are renderers or checking programs for.
var Formats = []Format{
	{Name: "assets"},
	{Name: "helm", Program: true},
	{Name: "http"},
	{Name: "kubernetes"},
	{Name: "kubernetes-objects", Program: true, Check: true},
	{Name: "kustomize", Program: true},
	{Name: "prometheus-rules", Program: true, Check: true},
	{Name: "sql-schema"},
	{Name: "sql-syntax", Program: true, Check: true},
	{Name: "terraform"},
	{Name: "terraform-types", Program: true, Check: true},
}

// FormatNames lists those that there are renderers for.
func FormatNames() []string { return names(false) }

// CheckNames lists those that there are checking programs for.
func CheckNames() []string { return names(true) }

func names(check bool) (list []string) {
	for _, format := range Formats {
		if format.Check == check {
			list = append(list, format.Name)
		}
	}
	return list
}

// RendererPrograms are the programs that formats are rendered or checked by.
func RendererPrograms() (names []string) {
	for _, format := range Formats {
		if format.Program {
			names = append(names, ProgramOf(format.Name))
		}
	}
	return names
}

// ProgramOf a format, where its renderer is one of its own or where it is checked.
func ProgramOf(format string) string { return "lehr-" + format }

// Apart reports whether the renderer of a format, or what checks it, is a program of its own.
func Apart(format string) bool {
	return slices.ContainsFunc(Formats, func(f Format) bool { return f.Name == format && f.Program })
}
