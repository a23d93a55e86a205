import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import type { StreamList, StreamPreview } from '../../operator/api/stream-shapes.ts'
import {
  addressOf,
  makeOperatorAccount,
} from '../../operator/environments/kubernetes/testing/service-account.ts'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { startBroker } from '../support/broker-process.ts'
import { freePorts } from '../support/free-ports.ts'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../support/kube-api-server.ts'
import { writeKubeconfig } from '../support/kubeconfig.ts'
import { feedClientSettings, playPod, writeFeedCertificate } from '../support/played-pod.ts'
import { startProgram } from '../support/program.ts'
import { serveKinds } from '../support/serve-kinds.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { startDeadlineMs, waitFor } from '../support/wait-for.ts'

const namespace = 'streams'
const leasePath = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/tollway-operator`
const runOperator = join(root, 'operator/environments/kubernetes/testing/run-operator.ts')
const noSession = 'has no session with the operator'

type Operator = Awaited<ReturnType<typeof startOperator>>

let api: KubeApiServer
let operatorPort = 0
let feedPort = 0
let kubeconfig = ''
const folder = temporaryFolder('cluster-streams')

/** Starts an operator that listens on this address only, as all of them have the same ports. */
async function startOperator(t: TestContext, ip: string) {
  const config = join(folder, `${ip}.json`)
  const settings = {
    ...{ operatorPort, feedPort, watchNamespaces: [namespace] },
    lease: { durationSeconds: 3, renewDeadlineSeconds: 2, retrySeconds: 1 },
    rateLimit: { enabled: false },
    broker: { enabled: true, replicas: 2, streamLog: { urlSecret: { name: 'redis' } } },
  }
  writeFileSync(config, JSON.stringify(settings))
  const pod = ['--name', `operator-${ip}`, '--namespace', namespace, '--ip', ip]
  const program = startProgram(process.execPath, [runOperator, '--config', config, ...pod], {
    env: { PATH: process.env['PATH'], KUBECONFIG: kubeconfig },
  })
  t.after(() => program.end('SIGKILL'))
  const isReady = async () => (await fetch(`http://${ip}:${operatorPort}/readyz`)).ok
  await waitFor(`the operator ${ip} to be ready`, isReady, startDeadlineMs)
  return { ip, program }
}

/** A broker that is a pod for the operators, and follows the feed of this one. */
async function startBrokerPod(t: TestContext, name: string, { ip }: Operator): Promise<void> {
  const broker = await startBroker(t, {
    ROUTES: 'feed',
    CONFIG_GRPC_XDS_SERVER_URL: `${ip}:${feedPort}`,
    CONFIG_GRPC_XDS_NODE_METADATA: await playPod({ api, namespace }, name, {}, 'broker'),
    ...feedClientSettings(namespace, join(folder, 'feed')),
  })
  const push = openAnimationClient(t, broker.address).push()
  push.write(encodeText('header', `of-${name}`))
  t.after(() => push.cancel())
}

async function get<Body>({ ip }: Operator, path: string): Promise<Body> {
  const headers = { authorization: `Bearer ${api.token}` }
  const answer = await fetch(`http://${ip}:${operatorPort}/api/v1${path}`, { headers })
  assert.equal(answer.status, 200, await answer.clone().text())
  return (await answer.json()) as Body
}

/** The requests that the API of an operator lists, and the brokers without an answer. */
async function listed(operator: Operator): Promise<string> {
  const { items, missing } = await get<StreamList>(operator, '/streams')
  const absent = missing.map(({ broker, problem }) => `${broker} ${problem}`)
  return [...items.map(({ requestId }) => requestId), ...absent].sort().join('; ')
}

/** The API of each operator lists these requests, and previews each of them. */
async function show(operators: readonly Operator[], ...expected: readonly string[]): Promise<void> {
  for (const operator of operators) {
    const isListed = async () => (await listed(operator)) === expected.join('; ')
    await waitFor(`${expected.join('; ')} at ${operator.ip}`, isListed, 30_000)
    for (const { key, requestId } of (await get<StreamList>(operator, '/streams')).items) {
      const preview = await get<StreamPreview>(operator, `/streams/preview?key=${encodeURIComponent(key)}`)
      assert.partialDeepStrictEqual(preview, { key, requestId, ended: false })
    }
  }
}

async function leader(): Promise<string> {
  const { body } = await api.call('GET', leasePath)
  return (body as { spec?: { holderIdentity?: string } }).spec?.holderIdentity?.split('_')[1] ?? ''
}

describe('the requests of brokers in a cluster of two operators', {
  skip: missingKubeAssets(),
  timeout: 180_000,
}, () => {
  before(async () => {
    const ports = await freePorts(2)
    operatorPort = ports[0] ?? 0
    feedPort = ports[1] ?? 0
    api = await startKubeApiServer()
    await serveKinds(api)
    const token = await makeOperatorAccount(api, namespace)
    await make(`/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: 'tollway-operator' } })
    const { host, port } = await addressOf(api)
    kubeconfig = writeKubeconfig(join(folder, 'kubeconfig'), `https://${host}:${port}`, token, namespace)
  })
  after(() => api?.stop())

  async function make(path: string, object: unknown): Promise<void> {
    const answer = await api.call('POST', path, object)
    assert.equal(answer.status, 201, JSON.stringify(answer.body))
  }

  it('are listed and previewed by each of them, also after a SIGKILL of the one with the Lease', async t => {
    const first = await startOperator(t, '127.0.0.1')
    await waitFor('a leader', async () => (await leader()) === first.ip)
    const second = await startOperator(t, '127.0.0.2')
    await writeFeedCertificate({ api, namespace }, join(folder, 'feed'))
    const deployment = `/apis/apps/v1/namespaces/${namespace}/deployments/tollway-broker`
    await waitFor('the Deployment', async () => (await api.call('GET', deployment)).status === 200)
    await Promise.all([startBrokerPod(t, 'one', first), startBrokerPod(t, 'two', second)])
    await show([first, second], 'of-one', 'of-two')

    await first.program.end('SIGKILL')
    await waitFor('another leader', async () => (await leader()) === second.ip, 30_000)
    await show([second], 'of-two', `one ${noSession}`)
    // The broker of the killed operator connects again; the new operator has no Lease.
    const third = await startOperator(t, first.ip)
    await show([second, third], 'of-one', 'of-two')
    assert.equal(await leader(), second.ip)
  })
})
