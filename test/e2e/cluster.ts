import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { waitFor } from '../support/wait-for.ts'

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
