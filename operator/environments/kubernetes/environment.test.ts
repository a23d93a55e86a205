import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { type ClusterConfig, validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import { missingKubeAssets, startKubeApiServer } from '../../../test/support/kube-api-server.ts'
import { serveKinds } from '../../../test/support/serve-kinds.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { Peers } from '../../leader/peers.ts'
import {
  type EnvironmentUnderTest,
  environmentContract,
  type Manifest,
} from '../../testing/environment.contract.ts'
import { createKubeClient } from './api/client.ts'
import { kubernetesEnvironment } from './environment.ts'
import { openTenantSecrets } from './secrets.ts'
import type { StoredResource } from './status/stored-resource.ts'
import { addressOf, makeOperatorAccount, writeServiceAccount } from './testing/service-account.ts'

const namespace = 'tollway-system'
const config = clusterConfig()
const operatorName = `tollway-operator.${namespace}.svc`

environmentContract('in a cluster', startCluster, missingKubeAssets())

function clusterConfig(): ClusterConfig {
  const judged = validateClusterConfig({
    rateLimit: { replicas: 1, backend: { type: 'memory' } },
    payments: { enabled: true, database: { urlSecret: { name: 'database' } } },
  })
  assert.ok('value' in judged, JSON.stringify(judged))
  return judged.value
}

function pathOf({ apiVersion, kind, metadata }: Manifest, name = ''): string {
  const group = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`
  return `${group}/namespaces/${metadata.namespace}/${kind.toLowerCase()}s${name && `/${name}`}`
}

async function startCluster(): Promise<EnvironmentUnderTest> {
  const api = await startKubeApiServer()
  await serveKinds(api)
  const token = await makeOperatorAccount(api, namespace)
  const folder = temporaryFolder('kubernetes-environment')
  const access = writeServiceAccount(folder, await addressOf(api), { namespace, token })
  const configMap = { metadata: { name: 'tollway-operator' } }
  const made = await api.call('POST', `/api/v1/namespaces/${namespace}/configmaps`, configMap)
  const { uid } = (made.body as { metadata: { uid: string } }).metadata
  const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'tollway-operator', uid }

  return {
    async open(provisioner) {
      const client = createKubeClient(access, { random: Math.random })
      const tenants = openTenantSecrets(client, config, namespace, silentLog)
      const environment = kubernetesEnvironment({
        config,
        namespace,
        client,
        tenants,
        provisioner,
        operatorName,
        installation: { name: config.name, namespace, revision: 'first', owner },
        infrastructure: { observe: () => [], obstacle: () => undefined, onChange() {} },
        peers: new Peers({ ids: randomUUID, clock: systemClock, log: silentLog }),
        leader: { current: () => undefined, relay: () => ({ current: () => undefined, onChange() {} }) },
        mayWrite: () => true,
        metrics: { statusWritten() {}, propagated() {}, reconciled() {} },
        events: { record() {} },
        log: silentLog,
      })
      return {
        environment,
        async close() {
          await tenants.routes.stop()
          client.close()
        },
      }
    },
    async apply(manifest) {
      const path = pathOf(manifest, manifest.metadata.name)
      const found = await api.call('GET', path)
      if (found.status === 404) {
        const answer = await api.call('POST', pathOf(manifest), manifest)
        assert.equal(answer.status, 201, JSON.stringify(answer.body))
        return
      }
      const { resourceVersion } = (found.body as StoredResource).metadata
      const metadata = { ...manifest.metadata, resourceVersion }
      const answer = await api.call('PUT', path, { ...manifest, metadata })
      assert.equal(answer.status, 200, JSON.stringify(answer.body))
    },
    async remove(manifest) {
      assert.equal((await api.call('DELETE', pathOf(manifest, manifest.metadata.name))).status, 200)
    },
    async conditions(manifest) {
      const { body } = await api.call('GET', pathOf(manifest, manifest.metadata.name))
      return (body as StoredResource).status?.conditions ?? []
    },
    async readSecret(namespace, name) {
      const { status, body } = await api.call('GET', `/api/v1/namespaces/${namespace}/secrets/${name}`)
      if (status !== 200) return undefined
      const { data } = body as { readonly data: Readonly<Record<string, string>> }
      const texts = Object.entries(data).map(([key, text]) => [key, Buffer.from(text, 'base64').toString()])
      return Object.fromEntries(texts)
    },
    close: () => api.stop(),
  }
}
