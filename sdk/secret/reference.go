package secret

import (
	"encoding/hex"
	"fmt"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// Name of a reference, for people.
func Name(ref *intentpb.SecretRef) string {
	switch source := ref.GetSource().(type) {
	case *intentpb.SecretRef_Env:
		return fmt.Sprintf("the variable %.200q", source.Env)
	case *intentpb.SecretRef_File:
		return fmt.Sprintf("the file %.500q", source.File)
	case *intentpb.SecretRef_Command:
		return fmt.Sprintf("the command %.100q", source.Command)
	case *intentpb.SecretRef_Kubernetes:
		k := source.Kubernetes
		return fmt.Sprintf("the Kubernetes Secret %.70s/%.260s, key %.260q", k.GetNamespace(), k.GetName(), k.GetKey())
	case *intentpb.SecretRef_Sops:
		digest := source.Sops.GetDocument().GetSha256()
		return fmt.Sprintf("the SOPS document %.12s, path %.300q", hex.EncodeToString(digest), strings.Join(source.Sops.GetPath(), "."))
	}
	return "a reference to nothing"
}

// Domain tells references apart in digests. Of a SOPS document only the path counts:
// a document in which another value was edited has the same secret there.
func Domain(ref *intentpb.SecretRef) []string {
	switch source := ref.GetSource().(type) {
	case *intentpb.SecretRef_Env:
		return []string{"env", source.Env}
	case *intentpb.SecretRef_File:
		return []string{"file", source.File}
	case *intentpb.SecretRef_Command:
		return []string{"command", source.Command}
	case *intentpb.SecretRef_Kubernetes:
		return []string{"kubernetes", source.Kubernetes.GetNamespace(), source.Kubernetes.GetName(), source.Kubernetes.GetKey()}
	case *intentpb.SecretRef_Sops:
		return append([]string{"sops"}, source.Sops.GetPath()...)
	}
	return nil
}

// Key tells references apart where values are kept: in a SOPS document, also by the
// document.
func Key(ref *intentpb.SecretRef) string {
	parts := Domain(ref)
	if sops := ref.GetSops(); sops != nil {
		parts = append(parts, hex.EncodeToString(sops.GetDocument().GetSha256()), sops.GetDocument().GetUri())
	}
	text := ""
	for _, part := range parts {
		text += fmt.Sprintf("%d:%s", len(part), part)
	}
	return text
}
