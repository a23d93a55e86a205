import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import {
  addressOf,
  makeOperatorAccount,
  type ServerAddress,
} from '../../operator/environments/kubernetes/testing/service-account.ts'
import { type ApiFaults, type ProxiedCall, startApiProxy } from '../support/api-proxy.ts'
import { freePorts } from '../support/free-ports.ts'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../support/kube-api-server.ts'
import { writeKubeconfig } from '../support/kubeconfig.ts'
import { type Program, startProgram } from '../support/program.ts'
import { programs } from '../support/programs.ts'
import { serveKinds } from '../support/serve-kinds.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'

/** A killed leader is replaced after three seconds. */
const lease = { durationSeconds: 3, renewDeadlineSeconds: 2, retrySeconds: 1 }
const timeoutMs = 30_000
/** The writes after which the operator is killed; all of them in the long form. */
const someWrites = [7]

// The faults are so frequent that few runs of the operator complete, and every watch ends early.
const manyFaults: ApiFaults = {
  answers: [
    { status: 500, share: 0.1 },
    { status: 409, share: 0.2, of: 'writes' },
    { status: 410, share: 0.2, of: 'watches' },
    { status: 429, share: 0.1, retryAfterSeconds: 1 },
  ],
  cutEvents: 0.2,
  goneEvents: 0.1,
  delayMs: 5,
  endWatchesAfterMs: 500,
}

/** The faults of the operator while it works. */
interface Disturbance {
  /** The number of the write after whose answer the operator is killed; 0 for never. */
  readonly killAfter: number
  /** The faults of the connection to the API server. */
  readonly faults: ApiFaults
}

const kinds = {
  deployments: '/apis/apps/v1',
  services: '/api/v1',
  serviceaccounts: '/api/v1',
  secrets: '/api/v1',
  networkpolicies: '/apis/networking.k8s.io/v1',
  poddisruptionbudgets: '/apis/policy/v1',
} as const

describe('an operator that is disturbed while it writes', {
  skip: missingKubeAssets(),
  timeout: 900_000,
}, () => {
  const folder = temporaryFolder('operator-crashes')
  let api: KubeApiServer
  let target: ServerAddress
  let undisturbed: Awaited<ReturnType<typeof playThrough>>

  before(async () => {
    api = await startKubeApiServer()
    target = await addressOf(api)
    await serveKinds(api)
    undisturbed = await playThrough('undisturbed', { killAfter: 0, faults: {} })
  })
  after(async () => {
    await api?.stop()
  })

  it('is completed by the next operator if it is killed after a write', async t => {
    const { writes, states } = undisturbed
    assert.ok(writes > 12, `${writes} writes`)
    const every = Array.from({ length: writes }, (_, index) => index + 1)
    const chosen = process.env['SOAK'] === '1' ? every : someWrites
    for (const write of chosen) {
      const played = await playThrough(`killed-${write}`, { killAfter: write, faults: {} })
      assert.deepEqual(played.states, states, `after write ${write} of ${writes}`)
    }
    t.diagnostic(`${chosen.length} of ${writes} writes`)
  })

  it('reaches the same state after rejections, cut watches and stale versions', async t => {
    const { struck, states } = await playThrough('faults', { killAfter: 0, faults: manyFaults })
    assert.deepEqual(states, undisturbed.states)
    assert.ok(struck > 10, `${struck} faults`)
    t.diagnostic(`${struck} faults`)
  })

  async function make(path: string, object: unknown): Promise<void> {
    const answer = await api.call('POST', path, object)
    assert.equal(answer.status, 201, JSON.stringify(answer.body))
  }

  /**
   * Creation, a change and the removal of everything, with an operator that is started again when it was
   * killed. Answers what there was after each step.
   */
  async function playThrough(namespace: string, { killAfter, faults }: Disturbance) {
    const limits = `/apis/tollway.dev/v1alpha1/namespaces/${namespace}/ratelimitconfigs`
    const token = await makeOperatorAccount(api, namespace)
    await make(`/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: 'tollway-operator' } })
    let writes = 0
    let operator: Program | undefined
    const proxy = await startApiProxy({
      target,
      seed: 1,
      onAnswer(call) {
        if (!isWrite(call)) return
        writes += 1
        if (writes === killAfter) operator?.process.kill('SIGKILL')
      },
    })
    proxy.setFaults(faults)
    const kubeconfig = writeKubeconfig(join(folder, namespace), proxy.url, token, namespace)
    const restart = async (enabled: boolean) => {
      await operator?.end('SIGKILL')
      operator = await startOperator(join(folder, `${namespace}.yaml`), kubeconfig, namespace, enabled)
    }
    const until = (what: string, enabled: boolean, condition: () => Promise<boolean>) =>
      waitFor(
        `${what} of ${namespace}`,
        async () => {
          if (operator?.process.exitCode !== null || operator.process.signalCode !== null)
            await restart(enabled)
          return condition()
        },
        timeoutMs,
      )
    const states: unknown[] = []
    try {
      await restart(true)
      await make(limits, checkout(3))
      await until('the first status', true, async () => (await observed(api, limits)) === 1)
      await until('all objects', true, async () => (await names(api, namespace)).length === expectedObjects)
      states.push(await names(api, namespace))
      const found = (await api.call('GET', `${limits}/checkout`)).body as object
      await api.call('PUT', `${limits}/checkout`, { ...found, spec: checkout(5).spec })
      await until('the second status', true, async () => (await observed(api, limits)) === 2)
      await api.call('DELETE', `${limits}/checkout`)
      await restart(false)
      await until('the end', false, async () => (await names(api, namespace)).length === remainingObjects)
      states.push(await names(api, namespace))
      return { writes, states, struck: proxy.struck() }
    } catch (error) {
      throw new Error(`${(error as Error).message}; the operator said: ${operator?.output().slice(-4000)}`)
    } finally {
      await operator?.end('SIGKILL')
      await proxy.stop()
    }
  }
})

/** Deployment, two Services, ServiceAccount, NetworkPolicy, and the three Secrets of the feed. */
const expectedObjects = 8
/** The Secrets remain for the next installation. */
const remainingObjects = 3

/** Renewals of the Lease happen at any time. */
function isWrite({ method, path, status }: ProxiedCall): boolean {
  return method !== 'GET' && !path.includes('/leases') && status < 300
}

async function startOperator(
  config: string,
  kubeconfig: string,
  namespace: string,
  enabled: boolean,
): Promise<Program> {
  const [operatorPort = 0, feedPort = 0] = await freePorts(2)
  const rateLimit = { enabled, replicas: 1, backend: { type: 'memory' } }
  writeFileSync(
    config,
    JSON.stringify({ lease, operatorPort, feedPort, watchNamespaces: [namespace], rateLimit }),
  )
  const pod = { POD_NAME: 'operator-0', POD_NAMESPACE: namespace, POD_IP: '127.0.0.1' }
  return startProgram(process.execPath, [programs.tollway, 'operator', '--config', config], {
    env: { PATH: process.env['PATH'], KUBECONFIG: kubeconfig, ...pod },
  })
}

/** `deployments/tollway-ratelimit`: what the operator made in its namespace. */
async function names(api: KubeApiServer, namespace: string): Promise<readonly string[]> {
  const found: string[] = []
  for (const [kind, group] of Object.entries(kinds)) {
    const { body } = await api.call('GET', `${group}/namespaces/${namespace}/${kind}`)
    const { items } = body as { items: { metadata: { name: string } }[] }
    for (const { metadata } of items)
      if (metadata.name.startsWith('tollway-')) found.push(`${kind}/${metadata.name}`)
  }
  return found.sort()
}

async function observed(api: KubeApiServer, limits: string): Promise<number> {
  const { body } = await api.call('GET', `${limits}/checkout`)
  return (body as { status?: { observedGeneration?: number } }).status?.observedGeneration ?? 0
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
