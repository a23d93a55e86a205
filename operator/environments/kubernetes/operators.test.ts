import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../test/support/kube-api-server.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createKubeClient } from './api/client.ts'
import { followOperators } from './operators.ts'
import { addressOf, makeOperatorAccount, writeServiceAccount } from './testing/service-account.ts'

const namespace = 'operators'
const deployments = `/apis/apps/v1/namespaces/${namespace}/deployments`
const pods = `/api/v1/namespaces/${namespace}/pods`
const labels = { 'app.kubernetes.io/name': 'tollway-operator', 'app.kubernetes.io/instance': 'tollway' }
const image = 'tollway/operator:none'
const containers = [{ name: 'operator', image }]

describe('the rollout of the operators', { skip: missingKubeAssets(), timeout: 60_000 }, () => {
  let api: KubeApiServer

  before(async () => {
    api = await startKubeApiServer()
  })
  after(async () => {
    await api?.stop()
  })

  async function call(method: string, path: string, body: object): Promise<object> {
    const answer = await api.call(method, path, body)
    assert.ok(answer.status < 300, JSON.stringify(answer.body))
    return answer.body as object
  }

  it('is reported as a problem with its cause until it is complete', async t => {
    const token = await makeOperatorAccount(api, namespace)
    const folder = temporaryFolder('operators')
    const access = writeServiceAccount(folder, await addressOf(api), { namespace, token })
    const client = createKubeClient(access, { random: Math.random })
    const installation = { name: 'tollway', namespace }
    const operators = followOperators({ client, installation, log: silentLog, random: Math.random })
    t.after(async () => {
      await operators.stop()
      client.close()
    })
    const describeAll = () => operators.problems().map(({ origin, message }) => `${origin}: ${message}`)
    assert.match(describeAll().join(), /has not answered yet/)
    await waitFor('no Deployment, no problem', () => describeAll().length === 0)

    const template = { metadata: { labels }, spec: { containers } }
    const spec = { replicas: 2, selector: { matchLabels: labels }, template }
    const made = await call('POST', deployments, { metadata: { name: 'tollway-operator', labels }, spec })
    const pod = await call('POST', pods, { metadata: { name: 'new', labels }, spec: { containers } })
    const waiting = { reason: 'ErrImagePull', message: 'not found' }
    const container = {
      name: 'operator',
      image,
      imageID: '',
      ready: false,
      restartCount: 0,
      state: { waiting },
    }
    await call('PUT', `${pods}/new/status`, { ...pod, status: { containerStatuses: [container] } })
    const half = { observedGeneration: 1, replicas: 3, updatedReplicas: 1, readyReplicas: 2 }
    const path = `${deployments}/tollway-operator/status`
    const updated = await call('PUT', path, { ...made, status: half })
    const expected =
      'operator: 0 of 2 pods of the newest version are ready, 2 earlier ones take calls: ' +
      'the image tollway/operator:none cannot be pulled: not found; set operator.image or image.pullSecrets'
    await waitFor('the cause', () => describeAll().join() === expected)

    const whole = { observedGeneration: 1, replicas: 2, updatedReplicas: 2, readyReplicas: 2 }
    await call('PUT', path, { ...updated, status: whole })
    await waitFor('the end of the rollout', () => describeAll().length === 0)
  })
})
