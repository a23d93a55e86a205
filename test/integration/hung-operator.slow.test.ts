import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fromBinary } from '@bufbuild/protobuf'
import { openClientTls } from '@tollway/grpc/client/open-client-tls.ts'
import { RateLimitConfigSchema } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import {
  addressOf,
  makeOperatorAccount,
  type ServerAddress,
} from '../../operator/environments/kubernetes/testing/service-account.ts'
import { connectPod } from '../../operator/testing/connect-pod.ts'
import { feedClientEnv } from '../../operator/workloads/service-env.ts'
import { type ApiFaults, type ApiProxy, type ProxiedCall, startApiProxy } from '../support/api-proxy.ts'
import { freePorts } from '../support/free-ports.ts'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../support/kube-api-server.ts'
import { writeKubeconfig } from '../support/kubeconfig.ts'
import { fedPodSettings, writeFeedCertificate } from '../support/played-pod.ts'
import { type Program, startProgram } from '../support/program.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { serveKinds } from '../support/serve-kinds.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const namespace = 'hung-operator'
const limitsIn = (place: string) => `/apis/tollway.dev/v1alpha1/namespaces/${place}/ratelimitconfigs`
const limits = limitsIn(namespace)
const leasePath = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/tollway-operator`

/** How long requests at rest are counted. */
const restMs = Number(process.env['REST_SECONDS'] ?? 20) * 1_000
/** The most requests a second of both operators at rest. */
const mostRequests = 0.5

/** The maximum delay that a paused operator may cause. */
const goalMs = 10_000
/** The goal, and the additional time that a busy machine may need. */
const deadlineMs = 2 * goalMs

/**
 * An operator without the Lease reads the memories of the leader every 5 s while they choose differently; the
 * leader stores them within 2 s.
 */
const takeOverMs = 5_000 + 2_000

/**
 * Ends all watches, and rejects all calls. The version of the watches counts as expired, so that the client
 * lists the objects afterwards, and never learns of objects that came and went meanwhile.
 */
const cutOff: ApiFaults = {
  endWatchesAfterMs: 0,
  answers: [
    { status: 410, share: 1, of: 'watches' },
    { status: 503, share: 1 },
  ],
}

interface Operator {
  readonly ip: string
  readonly program: Program
}

/** What a feed has served: the resources by `namespace/name`, in order. */
interface Served {
  readonly names: string
  readonly atMs: number
}

const isOf = (wanted: string) => (served: Served) => served.names === wanted

describe('two operators with default durations', {
  skip: missingKubeAssets(),
  timeout: restMs + 180_000,
}, () => {
  const folder = temporaryFolder('hung-operator')
  let api: KubeApiServer
  let proxy: ApiProxy
  let target: ServerAddress
  let token: string
  let kubeconfig: string

  before(async () => {
    api = await startKubeApiServer()
    await serveKinds(api)
    token = await makeOperatorAccount(api, namespace)
    await make(`/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: 'tollway-operator' } })
    target = await addressOf(api)
    proxy = await startApiProxy({ target, seed: 1 })
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
    await make(limits, limitRequests('checkout', 1_000))
    await waitFor('the first version to be enforced', async () => (await ask()) === 200)
    assert.equal(service.last(), leader.ip)

    leader.program.process.kill('SIGSTOP')
    const stoppedMs = performance.now()
    const since = () => Math.round(performance.now() - stoppedMs)
    const found = (await api.call('GET', `${limits}/checkout`)).body as object
    await api.call('PUT', `${limits}/checkout`, { ...found, spec: limitRequests('checkout', 0).spec })
    const [enforcedMs, leadsMs, observedMs] = await Promise.all([
      waitFor('the edit to be enforced', async () => (await ask()) === 429 && since(), deadlineMs),
      waitFor('the other to lead', async () => (await holder()).includes(other.ip) && since(), deadlineMs),
      waitFor('the status', async () => (await observed()) === 2 && since(), deadlineMs),
    ])
    t.diagnostic(`after the stop: enforced ${enforcedMs}, Lease ${leadsMs}, status ${observedMs} ms`)
    assert.equal(service.last(), other.ip)
  })

  it('serve the same resource of each domain after one of them missed a deletion', async t => {
    const otherProxy = await startApiProxy({ target, seed: 1 })
    t.after(() => otherProxy.stop())
    const otherConfig = writeKubeconfig(join(folder, 'other-kubeconfig'), otherProxy.url, token, namespace)
    const { leader, other, feedPort } = await startOperators(t, otherConfig)
    const [ofLeader, ofOther] = await followFeeds(t, [leader, other], feedPort)
    for (const name of ['blog', 'shop']) await make('/api/v1/namespaces', { metadata: { name } })

    otherProxy.setFaults(cutOff)
    await waitFor('the other to be cut off', () =>
      otherProxy.calls().some(({ path, status }) => path.includes('ratelimitconfigs') && status === 410),
    )
    const move = async (domain: string) => {
      await apply('shop', domain, { accepted: 'True' })
      await api.call('DELETE', `${limitsIn('shop')}/${domain}`)
      await apply('blog', domain, { accepted: 'False' })
    }
    await Promise.all(['login', 'signup'].map(move))
    await apply('shop', 'login', { accepted: 'True' })
    otherProxy.setFaults({})

    // To the leader, `shop` replaces its login, and its signup is kept for a minute. The other sees no such
    // right at first, and `blog` has the oldest resource of both domains.
    const alone = await waitFor(
      'the choice of the other',
      () => ofOther.find(isOf('blog/login blog/signup')),
      deadlineMs,
    )
    const agreed = await waitFor(
      'the choice of the leader at the other',
      () => ofOther.find(isOf('shop/login')),
      deadlineMs,
    )
    const tookMs = Math.round(agreed.atMs - alone.atMs)
    t.diagnostic(`the other chose as the leader after ${tookMs} ms`)
    assert.ok(tookMs < takeOverMs, `${tookMs} ms`)
    assert.deepEqual(
      [ofLeader, ofOther].map(served => served.at(-1)?.names),
      ['shop/login', 'shop/login'],
    )
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

  /** Creates limits of a domain, and waits until their status says whether they have it. */
  async function apply(place: string, domain: string, { accepted }: { readonly accepted: 'True' | 'False' }) {
    await make(limitsIn(place), limitRequests(domain, 10))
    type Conditions = readonly { readonly type: string; readonly status: string }[]
    await waitFor(`${place}/${domain} to have Accepted=${accepted}`, async () => {
      const { body } = await api.call('GET', `${limitsIn(place)}/${domain}`)
      const { conditions = [] } = (body as { status?: { conditions?: Conditions } }).status ?? {}
      return conditions.some(({ type, status }) => type === 'Accepted' && status === accepted)
    })
  }

  /** Connects a pod to the feed of each operator. Returns what each feed serves, as it comes. */
  async function followFeeds(t: TestContext, operators: readonly [Operator, Operator], feedPort: number) {
    const files = join(folder, `feed-${feedPort}`)
    await writeFeedCertificate({ api, namespace }, files)
    const tls = openClientTls({
      cert: { setting: 'cert', path: join(files, 'tls.crt') },
      key: { setting: 'key', path: join(files, 'tls.key') },
      ca: { setting: 'ca', path: join(files, 'ca.crt') },
      serverName: `tollway-operator.${namespace}.svc`,
      onReloadFailed: assert.fail,
    })
    t.after(() => tls.close())
    const follow = ({ ip }: Operator) => {
      const served: Served[] = []
      const onResources = (values: readonly Uint8Array[]) => {
        const names = values.map(value => fromBinary(RateLimitConfigSchema, value).name)
        const ofTenants = names.filter(name => !name.startsWith(namespace)).sort()
        served.push({ names: ofTenants.join(' '), atMs: performance.now() })
      }
      connectPod(t, { address: `${ip}:${feedPort}`, typeUrl: rateLimitTypeUrl, uid: 'pod', tls, onResources })
      return served
    }
    const [first, second] = operators
    return [follow(first), follow(second)] as const
  }

  /**
   * Starts two operators, of which the first leads.
   *
   * @param otherConfig the kubeconfig of the second one
   */
  async function startOperators(t: TestContext, otherConfig = kubeconfig) {
    const [operatorPort = 0, feedPort = 0] = await freePorts(2)
    const leader = await startOperator(t, '127.0.0.1', operatorPort, feedPort, kubeconfig)
    await waitFor('a leader', async () => (await holder()).includes(leader.ip), deadlineMs)
    const other = await startOperator(t, '127.0.0.2', operatorPort, feedPort, otherConfig)
    return { leader, other, operatorPort, feedPort }
  }

  async function startOperator(
    t: TestContext,
    ip: string,
    operatorPort: number,
    feedPort: number,
    kubeconfig: string,
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

function limitRequests(domain: string, requestsPerUnit: number) {
  return {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name: domain },
    spec: {
      domain,
      descriptors: [{ key: 'user', rateLimit: { unit: 'minute', requestsPerUnit } }],
    },
  }
}
