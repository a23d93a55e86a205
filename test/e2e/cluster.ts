import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { accessFromEnvironment } from '../../operator/environments/kubernetes/api/access.ts'
import { createKubeClient, type KubeClient } from '../../operator/environments/kubernetes/api/client.ts'
import { customResource } from '../../operator/environments/kubernetes/api/custom-resources.ts'
import type { ApiResource } from '../../operator/environments/kubernetes/api/kube-object.ts'
import { kinds, podResource } from '../../operator/environments/kubernetes/infrastructure/kinds.ts'
import { waitFor } from '../support/wait-for.ts'
import { type Load, startLoad } from './load.ts'

const run = promisify(execFile)
const maxOutputBytes = 64 * 1024 * 1024
const commandMs = 300_000

/** Resolves with the output of kubectl or helm; rejects with all its output when it fails. */
async function command(program: string, args: readonly string[], input?: string): Promise<string> {
  try {
    const running = run(program, [...args], { maxBuffer: maxOutputBytes, timeout: commandMs })
    if (input !== undefined) running.child.stdin?.end(input)
    return (await running).stdout
  } catch (error) {
    const { stdout = '', stderr = '', message } = error as Error & { stdout?: string; stderr?: string }
    throw new Error(`${program} ${args.join(' ')}: ${stderr || stdout || message}`)
  }
}

/** The cluster of KUBECONFIG. */
export const kubectl = (...args: readonly string[]) => command('kubectl', args)
export const helm = (...args: readonly string[]) => command('helm', args)

/** Applies manifests; rejects with the error of the API server. */
export function apply(manifests: string | object): Promise<string> {
  return command(
    'kubectl',
    ['apply', '-f', '-'],
    typeof manifests === 'string' ? manifests : JSON.stringify(manifests),
  )
}

/** Tests read objects all the time. A start of kubectl takes a hundred times the CPU time of a request. */
let opened: Promise<KubeClient> | undefined

const client = () => (opened ??= openClient())

async function openClient(): Promise<KubeClient> {
  return createKubeClient(await accessFromEnvironment(process.env), { random: Math.random })
}

const core = (plural: string): ApiResource => ({ group: '', version: 'v1', plural, namespaced: true })

const readable: readonly ApiResource[] = [
  ...[podResource, core('secrets')],
  { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', namespaced: true },
  ...[...Object.values(kinds), ...resourceKinds.map(customResource)],
]

/** Reads an object by plural and name, such as `deployments/tollway-operator`; undefined if there is none. */
export async function read<T>(namespace: string, path: string): Promise<T | undefined> {
  const [plural, name = ''] = path.split('/')
  const resource = readable.find(found => found.plural === plural)
  if (resource === undefined) throw new Error(`read ${path}: the tests know no ${plural}`)
  return (await (await client()).get(resource, { namespace, name })) as T | undefined
}

export interface Pod {
  readonly metadata: {
    readonly name: string
    readonly uid: string
    readonly deletionTimestamp?: string
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly status: {
    readonly podIP?: string
    readonly containerStatuses?: readonly { readonly restartCount: number }[]
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
  }
}

export async function pods(namespace: string, selector: string): Promise<readonly Pod[]> {
  const { items } = await (await client()).list(podResource, {
    namespace,
    labelSelector: selector,
    limit: 500,
  })
  return items as unknown as readonly Pod[]
}

/** Reports whether the pod takes calls and is not ending. */
export function isReady({ metadata, status }: Pod): boolean {
  const isTrue = status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false
  return isTrue && metadata.deletionTimestamp === undefined
}

/** Replaces the pods of a Deployment as an upgrade does; resolves when no old pod is left. */
export async function restart(namespace: string, deployment: string, selector: string): Promise<void> {
  const before = new Set((await pods(namespace, selector)).map(({ metadata }) => metadata.uid))
  await kubectl('-n', namespace, 'rollout', 'restart', `deploy/${deployment}`)
  await allNew(namespace, selector, before)
}

export interface Replacing {
  readonly url: string
  /** The address of a Service whose pods stay. */
  readonly controlUrl: string
  /** How long a deleted pod accepts connections. */
  readonly acceptMs: number
}

/**
 * Deletes all pods of a Deployment at once, while callers open connections to its Service, and to another one
 * as the control. Resolves when all pods are new, with the numbers of connections and of failed ones. If no
 * new pod is ready before the deleted ones end, the later failures are not counted.
 */
export async function replaceAtOnce(
  namespace: string,
  selector: string,
  { url, controlUrl, acceptMs }: Replacing,
): Promise<{ readonly opened: number; readonly failed: number; readonly failedOfControl: number }> {
  const before = new Set((await pods(namespace, selector)).map(({ metadata }) => metadata.uid))
  const [load, control] = [url, controlUrl].map(each =>
    startLoad(each, { keepAlive: false, callsPerSecond: 100 }),
  ) as [Load, Load]
  const opened = () => [...load.codes.values()].reduce((sum, count) => sum + count, 0)
  try {
    await eventually('connections', async () => opened() > 100)
    const endMs = performance.now() + acceptMs
    await kubectl('-n', namespace, 'delete', 'pod', '-l', selector, '--wait=false')
    await eventually('a new pod', async () => (await pods(namespace, selector)).some(isReady))
    const countedUntilMs = performance.now() < endMs ? Number.POSITIVE_INFINITY : endMs
    await allNew(namespace, selector, before)
    await Promise.all([load.stop(), control.stop()])
    const count = ({ failed }: Load) => failed.filter(({ beginMs }) => beginMs < countedUntilMs).length
    return { opened: opened(), failed: count(load), failedOfControl: count(control) }
  } finally {
    await Promise.all([load.stop(), control.stop()])
  }
}

/** Waits until as many pods are ready as there were before, and none of those is left. */
function allNew(namespace: string, selector: string, before: ReadonlySet<string>): Promise<void> {
  return eventually(
    'all pods to be new',
    async () => {
      const found = await pods(namespace, selector)
      return found.length === before.size && found.every(pod => isReady(pod) && !before.has(pod.metadata.uid))
    },
    240_000,
  )
}

/** Waits with the deadline of a busy cluster. */
export async function eventually(
  what: string,
  condition: () => Promise<boolean>,
  deadlineMs = 90_000,
): Promise<void> {
  await waitFor(what, condition, deadlineMs)
}

/** Waits until the logs that `kubectl logs` selects match; fails with these logs. */
export function logged(namespace: string, selected: readonly string[], line: RegExp): Promise<void> {
  return eventually(`the log of ${selected.join(' ')} in ${namespace}`, async () => {
    assert.match(await kubectl('-n', namespace, 'logs', ...selected), line)
    return true
  })
}

/** The labels of a namespace that takes only pods that are restricted, as Pod Security means it. */
export const restricted = { 'pod-security.kubernetes.io/enforce': 'restricted' }
