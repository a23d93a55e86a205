import { validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import type { Workload } from '../../../../model.ts'
import { makePodShape } from '../../../../workloads/registry.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import { workloadObjects } from '../objects/workload-objects.ts'

/** The fields of a case; all other values are the same for all cases. */
interface Case {
  readonly name?: string
  readonly workload: Partial<Workload>
  /** The section `pods` of the operator's configuration. */
  readonly pods?: unknown
  readonly podSecurityContext?: unknown
  readonly containerSecurityContext?: unknown
  readonly objects?: unknown
  readonly commonLabels?: unknown
  readonly commonAnnotations?: unknown
}

export const namespace = 'tollway-system'

/** Returns the objects that the YAML text of a case leads to. */
export function objectsOfCase(text: string): readonly KubeObject[] {
  const found = load(text, { schema: CORE_SCHEMA }) as Case
  const { name = 'tollway', workload, pods = {}, objects = {}, ...shared } = found
  const rateLimit = { backend: { urlSecret: { name: 'redis' } }, pods, objects }
  const judged = validateClusterConfig({ rateLimit, ...shared })
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
  return workloadObjects(whole, makePodShape(judged.value, 'ratelimit'), {
    name,
    namespace,
    owner,
    revision: 'b5bb9d8014a0f9b1',
  })
}
