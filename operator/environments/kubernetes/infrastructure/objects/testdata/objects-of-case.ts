import { validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import type { Workload } from '../../../../../ir.ts'
import type { KubeObject } from '../../../api/kube-object.ts'
import { workloadObjects } from '../workload-objects.ts'

/** What a case is about; the rest is the same for all. */
interface Case {
  readonly name?: string
  readonly workload: Partial<Workload>
  /** As in the operator's configuration. */
  readonly pods?: unknown
  readonly podSecurityContext?: unknown
  readonly containerSecurityContext?: unknown
}

export const namespace = 'tollway-system'

/** The objects of a case's text. */
export function objectsOfCase(text: string): readonly KubeObject[] {
  const { name = 'tollway', workload, pods = {}, ...security } = load(text, { schema: CORE_SCHEMA }) as Case
  const rateLimit = { backend: { urlSecret: { name: 'redis' } }, pods }
  const judged = validateClusterConfig({ rateLimit, ...security })
  if ('problems' in judged) throw new Error(JSON.stringify(judged.problems))
  const whole: Workload = {
    name: 'ratelimit',
    service: 'ratelimit',
    replicas: 2,
    env: {},
    ports: [],
    stopGraceMs: 12_200,
    ...workload,
  }
  const owner = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    name: `${name}-operator`,
    uid: '00000000-0000-4000-8000-000000000001',
  }
  const { podSecurityContext, containerSecurityContext } = judged.value
  const shape = { ...judged.value.rateLimit.pods, podSecurityContext, containerSecurityContext }
  return workloadObjects(whole, shape, {
    name,
    namespace,
    owner,
    revision: 'b5bb9d8014a0f9b1',
  })
}
