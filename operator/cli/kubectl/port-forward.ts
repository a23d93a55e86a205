import { type ChildProcess, spawn } from 'node:child_process'
import { type ClusterValues, kubectlFlags } from '../cluster/cluster-options.ts'
import type { TollwayPod } from '../cluster/find-tollway.ts'

const startMs = 15_000
const maxOutput = 4_000

/**
 * Resolves with the local port behind which a port of a pod is, until this process ends. kubectl forwards it,
 * because it knows every way to authenticate, and because the token of the user must not cross the network of
 * the pods in the clear, as it would behind the proxy of the API server. It needs the right to create
 * pods/portforward.
 */
export async function forwardPort(
  { name, namespace }: Pick<TollwayPod, 'name' | 'namespace'>,
  port: number,
  values: ClusterValues,
): Promise<number> {
  const args = [...kubectlFlags(values), '-n', namespace, 'port-forward', `pod/${name}`, `:${port}`]
  const child = spawn('kubectl', args, { stdio: ['ignore', 'pipe', 'pipe'] })
  process.once('exit', () => child.kill())
  const local = await firstPort(child)
  // The command ends when its own work ends.
  child.unref()
  for (const stream of [child.stdout, child.stderr]) (stream as unknown as { unref(): void }).unref()
  return local
}

async function firstPort(child: ChildProcess): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  let said = ''
  const fail = (cause: string) => {
    child.kill()
    const text = said.trim().replace(/^error: /i, '')
    reject(new Error(`kubectl port-forward: ${text === '' ? cause : text}`))
  }
  const timer = setTimeout(fail, startMs, `no answer within ${startMs / 1000} s`)
  const read = (chunk: Buffer) => {
    said = `${said}${chunk}`.slice(0, maxOutput)
    const [, port] = /Forwarding from 127\.0\.0\.1:(\d+) /.exec(said) ?? []
    if (port !== undefined) resolve(Number(port))
  }
  child.stdout?.on('data', read)
  child.stderr?.on('data', read)
  child.on('error', error => fail(error.message))
  child.on('exit', code => fail(`ended with ${code}`))
  return promise.finally(() => clearTimeout(timer))
}
