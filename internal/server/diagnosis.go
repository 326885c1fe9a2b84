package server

import (
	"context"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// DiagnosisFile is a text that tells of the process.
type DiagnosisFile struct {
	Name string
	// About says what is in it.
	About   string
	Content []byte
}

// GetDiagnosis answers nothing where there is no process but the caller's.
func (s *Server) GetDiagnosis(ctx context.Context, _ *apipb.GetDiagnosisRequest) (*apipb.GetDiagnosisResponse, error) {
	response := &apipb.GetDiagnosisResponse{}
	if s.diagnose == nil {
		return response, nil
	}
	for _, file := range s.diagnose(ctx) {
		response.Files = append(response.Files, &apipb.DiagnosisFile{Name: file.Name, About: file.About, Content: file.Content})
	}
	return response, nil
}
