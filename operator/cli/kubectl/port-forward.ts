import { type ChildProcess, spawn } from 'node:child_process'
import { describeConnectionError } from '@tollway/chassis/net/describe-connection-error.ts'
import type { TollwayPod } from './find-tollway.ts'
import { type ClusterValues, kubectlFlags } from './open-cluster.ts'

const startMs = 15_000
const answerMs = 5_000
const maxOutput = 4_000

/**
 * Resolves when an HTTP server of the pod answers: kubectl also forwards a port on which the pod does not
 * listen.
 *
 * @throws Error with the pod and the port
 */
export async function forwardHttpPort(
  pod: Pick<TollwayPod, 'name' | 'namespace'>,
  port: number,
  values: ClusterValues,
): Promise<number> {
  const local = await forwardPort(pod, port, values)
  try {
    // Any answer, even 404, proves that a server listens.
    const signal = AbortSignal.timeout(answerMs)
    const { body } = await fetch(`http://127.0.0.1:${local}/`, { signal, redirect: 'manual' })
    await body?.cancel()
    return local
  } catch (error) {
    const cause = describeConnectionError(error)
    throw new Error(`pod ${pod.namespace}/${pod.name}: no server answers on port ${port}: ${cause}`)
  }
}

/**
 * Forwards a local port to a port of a pod until this process ends. Resolves with the local port. kubectl
 * supports every way to authenticate; the proxy of the API server would send the token of the user
 * unencrypted through the pod network. The user needs the rights to get pods and to create pods/portforward.
 */
export async function forwardPort(
  { name, namespace }: Pick<TollwayPod, 'name' | 'namespace'>,
  port: number,
  values: ClusterValues,
): Promise<number> {
  const args = [...kubectlFlags(values), '-n', namespace, 'port-forward', `pod/${name}`, `:${port}`]
  const child = spawn('kubectl', args, { stdio: ['ignore', 'pipe', 'pipe'] })
  endWithThisProcess(child)
  const local = await firstPort(child)
  // The forwarded port must not keep the command running.
  child.unref()
  for (const stream of [child.stdout, child.stderr]) (stream as unknown as { unref(): void }).unref()
  return local
}

const started = new Set<ChildProcess>()

/** Ends the child when this process ends, also by a signal that the command does not handle. */
function endWithThisProcess(child: ChildProcess): void {
  started.add(child)
  child.once('exit', () => started.delete(child))
  if (started.size > 1) return
  process.once('exit', endAll)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      endAll()
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal)
    })
  }
}

function endAll(): void {
  for (const child of started) child.kill()
}

async function firstPort(child: ChildProcess): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  let printed = ''
  const fail = (cause: string) => {
    child.kill()
    const text = printed.trim().replace(/^error: /i, '')
    reject(new Error(`kubectl port-forward: ${text === '' ? cause : text}`))
  }
  const timer = setTimeout(fail, startMs, `no answer within ${startMs / 1000} s`)
  const read = (chunk: Buffer) => {
    printed = `${printed}${chunk}`.slice(0, maxOutput)
    const [, port] = /Forwarding from 127\.0\.0\.1:(\d+) /.exec(printed) ?? []
    if (port !== undefined) resolve(Number(port))
  }
  child.stdout?.on('data', read)
  child.stderr?.on('data', read)
  child.on('error', error => fail(error.message))
  // Not 'exit', after which the rest of what kubectl says is still to arrive.
  child.on('close', code => fail(`ended with ${code}`))
  return promise.finally(() => clearTimeout(timer))
}
