import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../test/support/kube-api-server.ts'
import { writeKubeconfig } from '../../../test/support/kubeconfig.ts'
import { startProgram } from '../../../test/support/program.ts'
import { programs } from '../../../test/support/programs.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { addressOf, makeOperatorAccount } from '../../environments/kubernetes/testing/service-account.ts'

const namespace = 'removal'
const services = `/api/v1/namespaces/${namespace}/services`
const labels = { 'app.kubernetes.io/managed-by': 'tollway', 'app.kubernetes.io/instance': 'tollway' }
const service = (name: string, ownLabels: object) => ({
  metadata: { name, labels: ownLabels },
  spec: { ports: [{ port: 1 }] },
})

describe('the removal command', { skip: missingKubeAssets(), timeout: 60_000 }, () => {
  let api: KubeApiServer
  let kubeconfig: string

  before(async () => {
    api = await startKubeApiServer()
    const token = await makeOperatorAccount(api, namespace)
    const { host, port } = await addressOf(api)
    const path = join(temporaryFolder('removal'), 'kubeconfig')
    kubeconfig = writeKubeconfig(path, `https://${host}:${port}`, token, namespace)
  })
  after(async () => {
    await api?.stop()
  })

  const start = (waitSeconds: number) => {
    const args = ['removal', '--name', 'tollway', '--wait', `${waitSeconds}`]
    const env = { PATH: process.env['PATH'], KUBECONFIG: kubeconfig }
    return startProgram(process.execPath, [programs.tollway, ...args], { env })
  }

  it('tollway removal names the objects that remain, and waits until none does', async () => {
    for (const made of [service('tollway-ratelimit', labels), service('foreign', {})])
      assert.equal((await api.call('POST', services, made)).status, 201)
    const hasty = start(0)
    assert.equal(await hasty.exited(), 1)
    assert.equal(hasty.output(), 'objects remain in removal: services/tollway-ratelimit (1 in all)\n')

    const patient = start(30)
    assert.equal((await api.call('DELETE', `${services}/tollway-ratelimit`)).status, 200)
    assert.equal(await patient.exited(), 0, patient.output())
  })
})
