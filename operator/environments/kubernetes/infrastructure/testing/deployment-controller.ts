import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { KubeApiServer } from '../../../../../test/support/kube-api-server.ts'
import { collectionPath } from '../../api/client.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import { kinds, podResource } from '../kinds.ts'

/**
 * Replaces the controllers and the kubelet for an API server that has neither. Creates the pods of
 * Deployments as a rolling update does, makes them ready, and deletes pods whose Deployment is gone.
 */
export interface DeploymentController {
  stop(): Promise<void>
}

interface Deployment extends KubeObject {
  readonly spec: {
    readonly replicas: number
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> }
    readonly template: { readonly metadata: { readonly labels: object }; readonly spec: PodSpec }
  }
}

interface PodSpec {
  readonly containers: readonly { readonly name: string; readonly image: string }[]
}

interface Pod extends KubeObject {
  readonly spec: PodSpec
  readonly status: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] }
}

const hashLabel = 'pod-template-hash'
const roundMs = 10

export function startDeploymentController(api: KubeApiServer, namespace: string): DeploymentController {
  const deployments = collectionPath(kinds.Deployment, namespace)
  const pods = collectionPath(podResource, namespace)
  let stopped = false
  let made = 0

  async function list<T>(path: string): Promise<readonly T[]> {
    const { status, body } = await api.call('GET', path)
    if (status !== 200) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`)
    return (body as { items: readonly T[] }).items
  }
  const end = (pod: Pod) => api.call('DELETE', `${pods}/${pod.metadata.name}`, { gracePeriodSeconds: 0 })
  const hashOf = ({ spec }: Deployment) =>
    createHash('sha256').update(JSON.stringify(spec.template)).digest('hex').slice(0, 8)

  async function start(deployment: Deployment): Promise<void> {
    const { metadata, spec } = deployment.spec.template
    const hash = hashOf(deployment)
    made += 1
    const name = `${deployment.metadata.name}-${hash}-${made}`
    const labels = { ...metadata.labels, [hashLabel]: hash }
    await api.call('POST', pods, { metadata: { name, labels }, spec })
  }

  /** Starts a pod in one round, and makes it ready in the next. */
  async function nurse(pod: Pod): Promise<void> {
    const ready = pod.status.conditions !== undefined
    const status = ready ? 'True' : 'False'
    const containerStatuses = pod.spec.containers.map(({ name, image }) => {
      const state = { running: { startedAt: '2026-01-01T00:00:00Z' } }
      return { name, image, imageID: image, state, started: ready, ready, restartCount: 0 }
    })
    const { name } = pod.metadata
    await api.call('PATCH', `${pods}/${name}/status?fieldManager=kubelet&force=true`, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name },
      status: {
        phase: 'Running',
        podIP: '10.0.0.1',
        conditions: [{ type: 'Ready', status }],
        containerStatuses,
      },
    })
  }

  async function roll(deployment: Deployment, all: readonly Pod[]): Promise<void> {
    const { replicas } = deployment.spec
    const isFresh = ({ metadata }: Pod) => metadata.labels?.[hashLabel] === hashOf(deployment)
    const fresh = all.filter(isFresh)
    const old = all.filter(pod => !isFresh(pod))
    const most = replicas + (old.length > 0 ? 1 : 0)
    for (let count = all.length; fresh.length + count - all.length < replicas && count < most; count += 1) {
      await start(deployment)
    }
    const spare = all.filter(isReady).length - replicas
    const superfluous = [...old.slice(0, Math.max(0, spare)), ...fresh.slice(replicas)]
    await Promise.all((replicas === 0 ? all : superfluous).map(end))
    const { name, generation } = deployment.metadata
    await api.call('PATCH', `${deployments}/${name}/status?fieldManager=controller&force=true`, {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name },
      status: {
        observedGeneration: generation,
        replicas: all.length,
        updatedReplicas: fresh.length,
        readyReplicas: all.filter(isReady).length,
      },
    })
  }

  async function round(): Promise<void> {
    const there = await list<Deployment>(deployments)
    const all = await list<Pod>(pods)
    await Promise.all(all.filter(pod => !isReady(pod)).map(nurse))
    const orphans = all.filter(pod => !there.some(deployment => selects(deployment, pod)))
    await Promise.all(orphans.map(end))
    for (const deployment of there)
      await roll(
        deployment,
        all.filter(pod => selects(deployment, pod)),
      )
  }

  const running = (async () => {
    while (!stopped) {
      await round()
      await pause(roundMs)
    }
  })()
  return {
    async stop() {
      stopped = true
      await running
    },
  }
}

function isReady({ status }: Pod): boolean {
  return status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true
}

function selects({ spec }: Deployment, { metadata }: Pod): boolean {
  return Object.entries(spec.selector.matchLabels).every(([name, value]) => metadata.labels?.[name] === value)
}
