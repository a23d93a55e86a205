import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const run = promisify(execFile)
const maxOutputBytes = 64 * 1024 * 1024
/** The current chart, and the values of these tests for it. */
export const chart = join(root, 'charts/tollway')
export const values = join(import.meta.dirname, 'values.yaml')
export const untilReady = ['--wait', '--timeout', '180s']

/** Resolves with the output of kubectl or helm; rejects with all its output when it fails. */
async function command(program: string, args: readonly string[], input?: string): Promise<string> {
  try {
    const running = run(program, [...args], { maxBuffer: maxOutputBytes, timeout: 180_000 })
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

/**
 * Reads an object as kubectl does, `deploy/tollway-operator` for example; undefined when it does not exist.
 */
export async function read<T>(namespace: string, name: string): Promise<T | undefined> {
  const text = await kubectl('-n', namespace, 'get', name, '-o', 'json', '--ignore-not-found')
  return text === '' ? undefined : (JSON.parse(text) as T)
}

export interface Pod {
  readonly metadata: { readonly name: string; readonly uid: string; readonly deletionTimestamp?: string }
  readonly status: {
    readonly podIP?: string
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
  }
}

export async function pods(namespace: string, selector: string): Promise<readonly Pod[]> {
  const text = await kubectl('-n', namespace, 'get', 'pods', '-l', selector, '-o', 'json')
  return (JSON.parse(text) as { items: Pod[] }).items
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
  await eventually(
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

/** The labels of a namespace that takes only pods that are restricted, as Pod Security means it. */
export const restricted = { 'pod-security.kubernetes.io/enforce': 'restricted' }

/** Installs the chart with the values of these tests, and those given; resolves when everything is ready. */
export async function install(namespace: string, ...given: readonly string[]): Promise<void> {
  await helm('install', 'tollway', chart, '-n', namespace, '-f', values, ...untilReady, ...settersOf(given))
}

/** The same as `install`, but only the hook of the chart waits. */
export async function installWithoutWaiting(namespace: string, ...given: readonly string[]): Promise<void> {
  await helm('install', 'tollway', chart, '-n', namespace, '-f', values, ...settersOf(given))
}

/** Upgrades it to the same values, and to those that are given: `broker.enabled=false`. */
export async function upgrade(namespace: string, ...given: readonly string[]): Promise<void> {
  await helm('upgrade', 'tollway', chart, '-n', namespace, '-f', values, ...untilReady, ...settersOf(given))
}

/** The same as `upgrade`, but only the hook of the chart waits. */
export async function upgradeWithoutWaiting(namespace: string, ...given: readonly string[]): Promise<void> {
  await helm('upgrade', 'tollway', chart, '-n', namespace, '-f', values, ...settersOf(given))
}

const settersOf = (given: readonly string[]) => given.flatMap(value => ['--set', value])

/** The kinds of objects that a release may have in its namespace. */
const kindsOfRelease =
  'deployments,services,serviceaccounts,secrets,poddisruptionbudgets,networkpolicies,jobs,leases'

/**
 * Uninstalls the release. Nothing that the operator created is left when helm returns; the namespace is as
 * empty as a new one when this resolves.
 */
export async function uninstall(namespace: string): Promise<void> {
  await helm('uninstall', 'tollway', '-n', namespace, '--wait', '--timeout', '120s')
  const created = ['-l', 'app.kubernetes.io/managed-by=tollway', '-o', 'name']
  assert.equal(await kubectl('-n', namespace, 'get', 'deployments,pods,services', ...created), '')
  await eventually('nothing to be left', async () => {
    const left = await kubectl('-n', namespace, 'get', kindsOfRelease, '-o', 'name')
    return left.split('\n').every(name => name === '' || name === 'serviceaccount/default')
  })
}
