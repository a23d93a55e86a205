import type { Workload } from '../../../../model.ts'
import { objectName } from '../../../../workloads/cluster-names.ts'
import type { KubeObject } from '../../api/kube-object.ts'

/** An installation of the chart in a cluster. */
export interface Installation {
  /** The name with which the names of all objects of the installation start: `tollway`. */
  readonly name: string
  readonly namespace: string
  /**
   * The chart's ConfigMap for the operator, which owns all objects that the operator creates. When an
   * uninstall deletes the ConfigMap, the garbage collector deletes these objects.
   */
  readonly owner: InstallationOwner
  /** Identifies the chart release whose operator applies the objects; empty if it is unknown. */
  readonly revision: string
}

export interface InstallationOwner {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
}

export interface WorkloadContext {
  readonly workload: Workload
  readonly installation: Installation
}

export const labelNames = {
  name: 'app.kubernetes.io/name',
  instance: 'app.kubernetes.io/instance',
  component: 'app.kubernetes.io/component',
  managedBy: 'app.kubernetes.io/managed-by',
  partOf: 'app.kubernetes.io/part-of',
} as const

const product = 'tollway'

/**
 * Returns the labels that distinguish the pods of a workload. A Deployment's selector is immutable, so there
 * are no others.
 */
export function podSelector(
  installation: Pick<Installation, 'name'>,
  workload: string,
): Readonly<Record<string, string>> {
  return { [labelNames.name]: workload, [labelNames.instance]: installation.name }
}

/** Returns the labels that distinguish the operator's own pods, which the chart creates. */
export function operatorSelector(installation: Pick<Installation, 'name'>): Readonly<Record<string, string>> {
  return { [labelNames.name]: `${product}-operator`, [labelNames.instance]: installation.name }
}

export function objectLabels(
  installation: Pick<Installation, 'name'>,
  workload: string,
): Readonly<Record<string, string>> {
  return {
    ...podSelector(installation, workload),
    [labelNames.component]: workload,
    [labelNames.managedBy]: product,
    [labelNames.partOf]: product,
  }
}

/**
 * Returns a label selector for all objects that the operator created for workloads, and for none of the
 * chart's.
 */
export function ownObjectsSelector({ name }: Pick<Installation, 'name'>): string {
  return `${labelNames.managedBy}=${product},${labelNames.instance}=${name}`
}

/** Adds the name, the labels and the owner that every object of a workload has. */
export function ownedObject(
  { workload, installation }: WorkloadContext,
  object: { readonly apiVersion: string; readonly kind: string; readonly [field: string]: unknown },
  suffix?: string,
): KubeObject {
  const { apiVersion, kind, ...rest } = object
  const { owner, namespace } = installation
  return {
    apiVersion,
    kind,
    metadata: {
      name: objectName(installation.name, workload.name, suffix),
      namespace,
      labels: objectLabels(installation, workload.name),
      ownerReferences: [{ apiVersion: owner.apiVersion, kind: owner.kind, name: owner.name, uid: owner.uid }],
    },
    ...rest,
  }
}
