package kubernetes

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
)

// scopes says which kinds have no namespace, and which are known to have one.
type scopes struct{ cluster, namespaced map[string]bool }

// scopes are of the cluster's own kinds, of custom resources that are in many clusters,
// of those that with names, and of those whose definition was read.
func (r *reader) scopes() scopes {
	s := scopes{cluster: map[string]bool{}, namespaced: map[string]bool{}}
	for _, kind := range slices.Concat(strings.Fields(clusterKinds), strings.Fields(clusterCustom), r.settings.ClusterScoped) {
		s.cluster[kind] = true
	}
	for _, kind := range strings.Fields(namespacedKinds) {
		s.namespaced[kind] = true
	}
	for _, o := range r.objects {
		if kindOf(o.Payload) == definitionKind {
			s.define(o.value)
		}
	}
	return s
}

func (s scopes) define(definition map[string]any) {
	if text(definition, "spec", "scope") == "Cluster" {
		s.cluster[definedKind(definition)] = true
	} else {
		s.namespaced[definedKind(definition)] = true
		delete(s.cluster, definedKind(definition))
	}
}

// none reports whether an object has no namespace.
func (s scopes) none(o *kubernetespb.Object) bool {
	kind := kindOf(o)
	if s.cluster[kind] {
		return true
	}
	_, group, _ := strings.Cut(kind, ".")
	return !s.namespaced[kind] && (s.cluster["*."+group] || managed.MatchString(group))
}

// managed are groups of Crossplane's providers, but for those whose kinds have a
// namespace, .m.upbound.io.
var managed = regexp.MustCompile(`(^|\.)(aws|azure|azuread|gcp|gcp-beta)\.(upbound|crossplane)\.io$`)

// named are kinds whose name says that they are for a whole cluster. Of about half of
// those that nobody knows it is true.
var named = regexp.MustCompile(`^(Cluster|Global)[A-Z]`)

// doubtful reports whether an object may have no namespace: nothing says so but its
// kind's name.
func (r *reader) doubtful(o *Object, s scopes) bool {
	kind := kindOf(o.Payload)
	custom := strings.Contains(kind, ".") && !strings.HasSuffix(kind, ".k8s.io")
	return custom && o.Payload.Namespace == "" && !s.none(o.Payload) && !s.namespaced[kind] && named.MatchString(o.Payload.Kind)
}

// ClusterKinds are the kinds without a namespace that CustomResourceDefinitions among
// files define, for objects that are rendered without them. What is no manifest is
// passed over.
func ClusterKinds(files map[string][]byte) (kinds []string) {
	for file, text := range files {
		if !bytes.Contains(text, []byte("CustomResourceDefinition")) {
			continue
		}
		next := documents(file, text)
		for node, err := next(); err == nil; node, err = next() {
			if textAt(node, "kind") == "CustomResourceDefinition" && textAt(node, "spec", "scope") == "Cluster" {
				kinds = append(kinds, textAt(node, "spec", "names", "kind")+"."+textAt(node, "spec", "group"))
			}
		}
	}
	slices.Sort(kinds)
	return kinds
}

// clusterKinds are Kubernetes' own that have no namespace.
const clusterKinds = `
APIService.apiregistration.k8s.io
CSIDriver.storage.k8s.io
CSINode.storage.k8s.io
CertificateSigningRequest.certificates.k8s.io
ClusterRole.rbac.authorization.k8s.io
ClusterRoleBinding.rbac.authorization.k8s.io
ClusterTrustBundle.certificates.k8s.io
CustomResourceDefinition.apiextensions.k8s.io
DeviceClass.resource.k8s.io
FlowSchema.flowcontrol.apiserver.k8s.io
IPAddress.networking.k8s.io
IngressClass.networking.k8s.io
MutatingAdmissionPolicy.admissionregistration.k8s.io
MutatingAdmissionPolicyBinding.admissionregistration.k8s.io
MutatingWebhookConfiguration.admissionregistration.k8s.io
Namespace
Node
PersistentVolume
PodSecurityPolicy.policy
PriorityClass.scheduling.k8s.io
PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io
ResourceSlice.resource.k8s.io
RuntimeClass.node.k8s.io
ServiceCIDR.networking.k8s.io
StorageClass.storage.k8s.io
ValidatingAdmissionPolicy.admissionregistration.k8s.io
ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io
ValidatingWebhookConfiguration.admissionregistration.k8s.io
VolumeAttachment.storage.k8s.io
VolumeAttributesClass.storage.k8s.io
`

// clusterCustom are custom resources without a namespace that are in many clusters;
// * is every kind of a group.
const clusterCustom = `
AKSNodeClass.karpenter.azure.com AWSNodeTemplate.karpenter.k8s.aws EC2NodeClass.karpenter.k8s.aws
GCENodeClass.karpenter.k8s.gcp Machine.karpenter.sh NodeClaim.karpenter.sh NodePool.karpenter.sh
Provisioner.karpenter.sh
AWSPCAClusterIssuer.awspca.cert-manager.io Bundle.trust.cert-manager.io
CertificateRequestPolicy.policy.cert-manager.io ClusterIssuer.cert-manager.io
ClusterOriginIssuer.cert-manager.k8s.cloudflare.com GoogleCASClusterIssuer.cas-issuer.jetstack.io
StepClusterIssuer.certmanager.step.sm
ClusterExternalSecret.external-secrets.io ClusterGenerator.generators.external-secrets.io
ClusterPushSecret.external-secrets.io ClusterSecretStore.external-secrets.io
ClusterAdmissionReport.kyverno.io ClusterBackgroundScanReport.kyverno.io ClusterCleanupPolicy.kyverno.io
ClusterEphemeralReport.reports.kyverno.io ClusterPolicy.kyverno.io ClusterPolicyReport.wgpolicyk8s.io
DeletingPolicy.policies.kyverno.io GeneratingPolicy.policies.kyverno.io GlobalContextEntry.kyverno.io
ImageValidatingPolicy.policies.kyverno.io MutatingPolicy.policies.kyverno.io ValidatingPolicy.policies.kyverno.io
*.constraints.gatekeeper.sh *.expansion.gatekeeper.sh *.externaldata.gatekeeper.sh *.mutations.gatekeeper.sh
*.syncset.gatekeeper.sh ConstraintTemplate.templates.gatekeeper.sh
CiliumBGPAdvertisement.cilium.io CiliumBGPClusterConfig.cilium.io CiliumBGPNodeConfig.cilium.io
CiliumBGPNodeConfigOverride.cilium.io CiliumBGPPeerConfig.cilium.io CiliumBGPPeeringPolicy.cilium.io
CiliumCIDRGroup.cilium.io CiliumClusterwideEnvoyConfig.cilium.io CiliumClusterwideNetworkPolicy.cilium.io
CiliumEgressGatewayPolicy.cilium.io CiliumExternalWorkload.cilium.io CiliumIdentity.cilium.io
CiliumL2AnnouncementPolicy.cilium.io CiliumLoadBalancerIPPool.cilium.io CiliumNode.cilium.io CiliumPodIPPool.cilium.io
TracingPolicy.cilium.io
*.operator.tigera.io BGPConfiguration.projectcalico.org BGPFilter.projectcalico.org BGPPeer.projectcalico.org
BlockAffinity.projectcalico.org CalicoNodeStatus.projectcalico.org ClusterInformation.projectcalico.org
FelixConfiguration.projectcalico.org GlobalNetworkPolicy.projectcalico.org GlobalNetworkSet.projectcalico.org
HostEndpoint.projectcalico.org IPAMConfiguration.projectcalico.org IPPool.projectcalico.org
IPReservation.projectcalico.org KubeControllersConfiguration.projectcalico.org Profile.projectcalico.org
StagedGlobalNetworkPolicy.projectcalico.org Tier.projectcalico.org
BGPConfiguration.crd.projectcalico.org BGPFilter.crd.projectcalico.org BGPPeer.crd.projectcalico.org
BlockAffinity.crd.projectcalico.org CalicoNodeStatus.crd.projectcalico.org ClusterInformation.crd.projectcalico.org
FelixConfiguration.crd.projectcalico.org GlobalNetworkPolicy.crd.projectcalico.org
GlobalNetworkSet.crd.projectcalico.org HostEndpoint.crd.projectcalico.org IPAMBlock.crd.projectcalico.org
IPAMConfig.crd.projectcalico.org IPAMHandle.crd.projectcalico.org IPPool.crd.projectcalico.org
IPReservation.crd.projectcalico.org KubeControllersConfiguration.crd.projectcalico.org Tier.crd.projectcalico.org
ClusterGroup.crd.antrea.io ClusterNetworkPolicy.crd.antrea.io Egress.crd.antrea.io ExternalIPPool.crd.antrea.io
ExternalNode.crd.antrea.io Tier.crd.antrea.io Traceflow.crd.antrea.io
AdminNetworkPolicy.policy.networking.k8s.io BaselineAdminNetworkPolicy.policy.networking.k8s.io
ClusterNetworkPolicy.policy.networking.k8s.io GatewayClass.gateway.networking.k8s.io
VolumeGroupSnapshotClass.groupsnapshot.storage.k8s.io VolumeGroupSnapshotContent.groupsnapshot.storage.k8s.io
VolumeSnapshotClass.snapshot.storage.k8s.io VolumeSnapshotContent.snapshot.storage.k8s.io
*.pkg.crossplane.io CompositeResourceDefinition.apiextensions.crossplane.io Composition.apiextensions.crossplane.io
CompositionRevision.apiextensions.crossplane.io EnvironmentConfig.apiextensions.crossplane.io
ManagedResourceActivationPolicy.apiextensions.crossplane.io ManagedResourceDefinition.apiextensions.crossplane.io
Usage.apiextensions.crossplane.io StoreConfig.secrets.crossplane.io *.kubernetes.crossplane.io *.helm.crossplane.io
ClusterTriggerAuthentication.keda.sh ClusterCloudEventSource.eventing.keda.sh ClusterAnalysisTemplate.argoproj.io
ClusterWorkflowTemplate.argoproj.io ClusterTask.tekton.dev ClusterInterceptor.triggers.tekton.dev
ClusterTriggerBinding.triggers.tekton.dev *.operator.tekton.dev
ClusterDomainClaim.networking.internal.knative.dev ClusterServingRuntime.serving.kserve.io
ClusterStorageContainer.serving.kserve.io CompositeController.metacontroller.k8s.io
DecoratorController.metacontroller.k8s.io
VirtualMachineClusterInstancetype.instancetype.kubevirt.io VirtualMachineClusterPreference.instancetype.kubevirt.io
CDI.cdi.kubevirt.io CDIConfig.cdi.kubevirt.io ObjectTransfer.cdi.kubevirt.io StorageProfile.cdi.kubevirt.io
ClusterPolicy.nvidia.com NVIDIADriver.nvidia.com NicClusterPolicy.mellanox.com MacvlanNetwork.mellanox.com
HostDeviceNetwork.mellanox.com IPoIBNetwork.mellanox.com NodeFeatureRule.nfd.k8s-sigs.io
NodeResourceTopology.topology.node.k8s.io
LinstorCluster.piraeus.io LinstorNodeConnection.piraeus.io LinstorSatellite.piraeus.io
LinstorSatelliteConfiguration.piraeus.io
*.config.openshift.io *.console.openshift.io *.machineconfiguration.openshift.io *.oauth.openshift.io
*.user.openshift.io *.imageregistry.operator.openshift.io *.samples.operator.openshift.io *.project.openshift.io
CloudCredential.operator.openshift.io ClusterCSIDriver.operator.openshift.io Console.operator.openshift.io
DNS.operator.openshift.io Etcd.operator.openshift.io KubeAPIServer.operator.openshift.io Network.operator.openshift.io
Storage.operator.openshift.io ClusterResourceQuota.quota.openshift.io SecurityContextConstraints.security.openshift.io
ClusterRepo.catalog.cattle.io Cluster.management.cattle.io Feature.management.cattle.io
GlobalRole.management.cattle.io GlobalRoleBinding.management.cattle.io NodeDriver.management.cattle.io
RoleTemplate.management.cattle.io Setting.management.cattle.io User.management.cattle.io
ETCDSnapshotFile.k3s.cattle.io
AdmissionCheck.kueue.x-k8s.io ClusterQueue.kueue.x-k8s.io Cohort.kueue.x-k8s.io MultiKueueCluster.kueue.x-k8s.io
MultiKueueConfig.kueue.x-k8s.io ProvisioningRequestConfig.kueue.x-k8s.io ResourceFlavor.kueue.x-k8s.io
Topology.kueue.x-k8s.io WorkloadPriorityClass.kueue.x-k8s.io Queue.scheduling.volcano.sh
AWSClusterControllerIdentity.infrastructure.cluster.x-k8s.io AWSClusterRoleIdentity.infrastructure.cluster.x-k8s.io
AWSClusterStaticIdentity.infrastructure.cluster.x-k8s.io CapsuleConfiguration.capsule.clastix.io
Tenant.capsule.clastix.io HNCConfiguration.hnc.x-k8s.io
ClusterFederatedTrustDomain.spire.spiffe.io ClusterSPIFFEID.spire.spiffe.io ClusterStaticEntry.spire.spiffe.io
ClusterFilter.fluentbit.fluent.io ClusterFluentBitConfig.fluentbit.fluent.io ClusterInput.fluentbit.fluent.io
ClusterMultilineParser.fluentbit.fluent.io ClusterOutput.fluentbit.fluent.io ClusterParser.fluentbit.fluent.io
ClusterFilter.fluentd.fluent.io ClusterFluentdConfig.fluentd.fluent.io ClusterInput.fluentd.fluent.io
ClusterOutput.fluentd.fluent.io FluentbitAgent.logging.banzaicloud.io Logging.logging.banzaicloud.io
LoggingRoute.logging.banzaicloud.io
CNINode.vpcresources.k8s.aws ClusterPolicyEndpoint.networking.k8s.aws ENIConfig.crd.k8s.amazonaws.com
IngressClassParams.elbv2.k8s.aws ComputeClass.cloud.google.com GKENetworkParamSet.networking.gke.io
ClusterNodeMonitoring.monitoring.googleapis.com ClusterPodMonitoring.monitoring.googleapis.com
ClusterRules.monitoring.googleapis.com GlobalRules.monitoring.googleapis.com
NodeImage.apps.kruise.io ResourceDistribution.apps.kruise.io ClusterImageCatalog.postgresql.cnpg.io IP.kubeovn.io
ProviderNetwork.kubeovn.io Subnet.kubeovn.io Vlan.kubeovn.io Vpc.kubeovn.io RemoteCluster.chaos-mesh.org
OLMConfig.operators.coreos.com Operator.operators.coreos.com ClusterCatalog.olm.operatorframework.io
ClusterExtension.olm.operatorframework.io GlobalRole.iam.kubesphere.io User.iam.kubesphere.io
WorkspaceRole.iam.kubesphere.io Workspace.tenant.kubesphere.io WorkspaceTemplate.tenant.kubesphere.io
ManagedCluster.cluster.open-cluster-management.io ManagedClusterSet.cluster.open-cluster-management.io
ClusterManagementAddOn.addon.open-cluster-management.io ClusterManager.operator.open-cluster-management.io
Klusterlet.operator.open-cluster-management.io Cluster.cluster.karmada.io ClusterOverridePolicy.policy.karmada.io
ClusterPropagationPolicy.policy.karmada.io
KongClusterPlugin.configuration.konghq.com KongLicense.configuration.konghq.com KongVault.configuration.konghq.com
Mesh.kuma.io Zone.kuma.io *.tailscale.com StorageState.migration.k8s.io StorageVersionMigration.migration.k8s.io
StorageVersionMigration.storagemigration.k8s.io
`

// namespacedKinds have a namespace, whatever their name or the rest of their group.
const namespacedKinds = `
ClusterClaim.hive.openshift.io ClusterClass.cluster.x-k8s.io ClusterDeployment.hive.openshift.io ClusterDeprovision.hive.openshift.io
ClusterFlow.logging.banzaicloud.io ClusterLogForwarder.logging.openshift.io ClusterLogForwarder.observability.openshift.io
ClusterLogging.logging.openshift.io ClusterOutput.logging.banzaicloud.io ClusterPool.hive.openshift.io ClusterProvision.hive.openshift.io
ClusterRegistrationToken.management.cattle.io ClusterResourceSet.addons.cluster.x-k8s.io ClusterResourceSetBinding.addons.cluster.x-k8s.io
ClusterRoleTemplateBinding.management.cattle.io ClusterServiceVersion.operators.coreos.com
ClusterRegistration.fleet.cattle.io ClusterGroup.fleet.cattle.io
`
