import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { customResourceDefinition } from '../../crds/generation/definition.ts'
import {
  addressOf,
  makeOperatorAccount,
} from '../../operator/environments/kubernetes/testing/service-account.ts'
import { feedClientEnv } from '../../operator/workloads/service-env.ts'
import { type ApiProxy, type ProxiedCall, startApiProxy } from '../support/api-proxy.ts'
import { freePorts } from '../support/free-ports.ts'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../support/kube-api-server.ts'
import { writeKubeconfig } from '../support/kubeconfig.ts'
import { fedPodSettings, writeFeedCertificate } from '../support/played-pod.ts'
import { type Program, startProgram } from '../support/program.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const namespace = 'hung-operator'
const limits = `/apis/tollway.dev/v1alpha1/namespaces/${namespace}/ratelimitconfigs`
const leasePath = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/tollway-operator`

/** How long requests at rest are counted. */
const restMs = Number(process.env['REST_SECONDS'] ?? 20) * 1_000
/** The most requests a second of both operators at rest. */
const mostRequests = 0.5

/** The maximum delay that a paused operator may cause. */
const goalMs = 10_000
/** The goal, and the additional time that a busy machine may need. */
const deadlineMs = 2 * goalMs

interface Operator {
  readonly ip: string
  readonly program: Program
}

describe('two operators with default durations', {
  skip: missingKubeAssets(),
  timeout: restMs + 150_000,
}, () => {
  const folder = temporaryFolder('hung-operator')
  let api: KubeApiServer
  let proxy: ApiProxy
  let kubeconfig: string

  before(async () => {
    api = await startKubeApiServer()
    for (const kind of resourceKinds)
      await make('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', customResourceDefinition(kind))
    const token = await makeOperatorAccount(api, namespace)
    await waitFor('the kind to be served', async () => (await api.call('GET', limits)).status === 200)
    await make(`/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: 'tollway-operator' } })
    proxy = await startApiProxy({ target: await addressOf(api), seed: 1 })
    kubeconfig = writeKubeconfig(join(folder, 'kubeconfig'), proxy.url, token, namespace)
  })
  after(async () => {
    await proxy?.stop()
    await api?.stop()
  })

  it('send few requests to the API server at rest', async t => {
    await startOperators(t)
    let seen = 0
    await waitFor('nothing but renewals for 5 s', async () => {
      seen = proxy.calls().length
      await pause(5_000)
      return proxy.calls().slice(seen).every(isRenewal)
    })
    seen = proxy.calls().length
    await pause(restMs)
    const calls = proxy.calls().slice(seen)
    for (const [kind, count] of countByKind(calls)) t.diagnostic(`${kind}: ${perSecond(count).toFixed(3)}/s`)
    const all = perSecond(calls.length)
    t.diagnostic(`all requests of both operators: ${all.toFixed(3)}/s`)
    assert.ok(all < mostRequests, `${all.toFixed(3)}/s`)
  })

  it('delay neither an edit nor the Lease longer than 10 s while the leader is paused (SIGSTOP)', async t => {
    const { leader, other, operatorPort, feedPort } = await startOperators(t)
    const service = await startService(t, [leader, other], operatorPort, feedPort)
    const ask = await startPod(t, service, feedPort)
    await make(limits, checkout(1_000))
    await waitFor('the first version to be enforced', async () => (await ask()) === 200)
    assert.equal(service.last(), leader.ip)

    leader.program.process.kill('SIGSTOP')
    const stoppedMs = performance.now()
    const since = () => Math.round(performance.now() - stoppedMs)
    const found = (await api.call('GET', `${limits}/checkout`)).body as object
    await api.call('PUT', `${limits}/checkout`, { ...found, spec: checkout(0).spec })
    const [enforcedMs, leadsMs, observedMs] = await Promise.all([
      waitFor('the edit to be enforced', async () => (await ask()) === 429 && since(), deadlineMs),
      waitFor('the other to lead', async () => (await holder()).includes(other.ip) && since(), deadlineMs),
      waitFor('the status', async () => (await observed()) === 2 && since(), deadlineMs),
    ])
    t.diagnostic(`after the stop: enforced ${enforcedMs}, Lease ${leadsMs}, status ${observedMs} ms`)
    assert.equal(service.last(), other.ip)
  })

  async function make(path: string, object: unknown): Promise<void> {
    const answer = await api.call('POST', path, object)
    assert.equal(answer.status, 201, JSON.stringify(answer.body))
  }

  async function holder(): Promise<string> {
    const { body } = await api.call('GET', leasePath)
    return (body as { spec?: { holderIdentity?: string } }).spec?.holderIdentity ?? ''
  }

  async function observed(): Promise<number | undefined> {
    const { body } = await api.call('GET', `${limits}/checkout`)
    return (body as { status?: { observedGeneration?: number } }).status?.observedGeneration
  }

  /** Starts two operators, of which the first leads. */
  async function startOperators(t: TestContext) {
    const [operatorPort = 0, feedPort = 0] = await freePorts(2)
    const leader = await startOperator(t, '127.0.0.1', operatorPort, feedPort)
    await waitFor('a leader', async () => (await holder()).includes(leader.ip))
    const other = await startOperator(t, '127.0.0.2', operatorPort, feedPort)
    return { leader, other, operatorPort, feedPort }
  }

  async function startOperator(
    t: TestContext,
    ip: string,
    operatorPort: number,
    feedPort: number,
  ): Promise<Operator> {
    const config = join(folder, `${ip}.yaml`)
    const rateLimit = { replicas: 1, backend: { type: 'memory' } }
    writeFileSync(config, JSON.stringify({ operatorPort, feedPort, rateLimit }))
    const pod = ['--name', `operator-${ip}`, '--namespace', namespace, '--ip', ip]
    const program = startProgram(
      process.execPath,
      [join(root, 'operator/environments/kubernetes/testing/run-operator.ts'), '--config', config, ...pod],
      { env: { PATH: process.env['PATH'], KUBECONFIG: kubeconfig } },
    )
    t.after(() => program.end('SIGKILL'))
    await waitFor(`the operator ${ip} to serve`, () => isReady(ip, operatorPort), 30_000)
    return { ip, program }
  }

  /** A rate limit process with the settings of a pod. Returns a call that it answers. */
  async function startPod(t: TestContext, service: { readonly port: number }, feedPort: number) {
    const files = join(folder, `feed-${feedPort}`)
    await writeFeedCertificate({ api, namespace }, files)
    const pod = await startRateLimit(t, {
      ...feedClientEnv(`127.0.0.1:${service.port}`),
      ...fedPodSettings(namespace, files),
    })
    await pod.serves()
    return () => pod.ask('checkout', 'user', 'alice')
  }
})

const isRenewal = ({ method, path }: ProxiedCall) => method === 'PUT' && path.startsWith(leasePath)

/** Counts calls by verb and resource, such as `watch secrets`. */
function countByKind(calls: readonly ProxiedCall[]): ReadonlyMap<string, number> {
  const findKind = ({ method, path }: ProxiedCall) => {
    const [, resource = path] = /\/(?:namespaces\/[^/]+\/)?([a-z]+)(?:\/[^/?]+)?(?:\?|$)/.exec(path) ?? []
    return `${/[?&]watch=true/.test(path) ? 'watch' : method} ${resource}`
  }
  const groups = [...Map.groupBy(calls, findKind)]
  return new Map(groups.map(([kind, { length }]): [string, number] => [kind, length]).sort())
}

const perSecond = (count: number) => (count * 1_000) / restMs

/** Asks for readiness as the kubelet does. */
async function isReady(ip: string, operatorPort: number): Promise<boolean> {
  const signal = AbortSignal.timeout(1_000)
  const answer = await fetch(`http://${ip}:${operatorPort}/readyz`, { signal }).catch(() => undefined)
  return answer?.status === 200
}

/** Plays the Service of the operators: each new connection goes to the first one that is ready. */
async function startService(
  t: TestContext,
  operators: readonly Operator[],
  operatorPort: number,
  feedPort: number,
) {
  const sockets = new Set<Socket>()
  let last = ''
  const keep = (socket: Socket) => sockets.add(socket.on('error', () => {}))
  const server = createServer(async client => {
    keep(client)
    for (const { ip } of operators) {
      if (!(await isReady(ip, operatorPort))) continue
      last = ip
      const upstream = connect(feedPort, ip)
      keep(upstream)
      client.on('close', () => upstream.destroy())
      upstream.on('close', () => client.destroy())
      client.pipe(upstream).pipe(client)
      return
    }
    client.destroy()
  })
  t.after(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const [port = 0] = await freePorts(1)
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  return { port, last: () => last }
}

function checkout(requestsPerUnit: number) {
  return {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name: 'checkout' },
    spec: {
      domain: 'checkout',
      descriptors: [{ key: 'user', rateLimit: { unit: 'minute', requestsPerUnit } }],
    },
  }
}
