import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { type KubeApiServer, startKubeApiServer } from '../../../../test/support/kube-api-server.ts'
import { writeKubeconfig } from '../../../../test/support/kubeconfig.ts'
import { serveKinds } from '../../../../test/support/serve-kinds.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'

/** An API server with the kinds of Tollway, and pods that exist only as objects. */
export interface TestCluster {
  readonly api: KubeApiServer
  /** The path of the kubeconfig of an administrator. */
  readonly kubeconfig: string
  /** Creates the object at this path of the API server. */
  put(path: string, object: object): Promise<void>
  /**
   * Creates a service account with these RBAC rules, by namespace. Resolves with the path of the kubeconfig
   * of the account.
   */
  account(name: string, rules: Readonly<Record<string, readonly object[]>>): Promise<string>
  /**
   * Creates the pod of an operator that serves these pages by their paths. In the middle of the page `last`,
   * the server closes the connection.
   */
  operatorPod(name: string, pages: Readonly<Record<string, string>>, last?: string): Promise<void>
  stop(): Promise<void>
}

export const systemNamespace = 'tollway-system'
const rbac = '/apis/rbac.authorization.k8s.io/v1'

/** @param withKinds whether the cluster knows the kinds of Tollway */
export async function openTestCluster(withKinds = true): Promise<TestCluster> {
  const api = await startKubeApiServer()
  const place = temporaryFolder('kubectl-tollway')
  const servers: ReturnType<typeof createServer>[] = []
  const put = async (path: string, object: object) => {
    const { status, body } = await api.call('POST', path, object)
    assert.ok(status === 201, `${path}: ${status} ${JSON.stringify(body)}`)
  }
  for (const name of ['shop', systemNamespace]) await put('/api/v1/namespaces', { metadata: { name } })
  if (withKinds) await serveKinds(api)

  return {
    api,
    kubeconfig: writeKubeconfig(join(place, 'admin'), api.url, api.token, 'default'),
    put,
    async account(name, rules) {
      const accounts = `/api/v1/namespaces/${systemNamespace}/serviceaccounts`
      const { body } = await api.call('POST', accounts, { metadata: { name } })
      const { uid } = (body as { metadata: { uid: string } }).metadata
      for (const [namespace, ofNamespace] of Object.entries(rules)) {
        const metadata = { name, namespace }
        const folder = `${rbac}/namespaces/${namespace}`
        await put(`${folder}/roles`, { metadata, rules: ofNamespace })
        await put(`${folder}/rolebindings`, {
          metadata,
          roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
          subjects: [{ kind: 'ServiceAccount', name, namespace: systemNamespace }],
        })
      }
      const hourLater = Math.floor(Date.now() / 1000) + 3600
      const token = api.signToken({ namespace: systemNamespace, name, uid }, hourLater)
      return writeKubeconfig(join(place, name), api.url, token, 'shop')
    },
    async operatorPod(name, pages, last) {
      const server = createServer((request, response) => {
        const page = pages[request.url ?? '']
        response.writeHead(page === undefined ? 404 : 200)
        if (request.url !== last) response.end(page)
        else {
          server.close()
          response.write(page?.slice(0, page.length / 2), () => server.closeAllConnections())
        }
      })
      servers.push(server)
      await once(server.listen(0, '0.0.0.0'), 'listening')
      const { port } = server.address() as AddressInfo
      await createPod(api, put, name, port)
    },
    async stop() {
      for (const server of servers) server.close()
      await api.stop()
    },
  }
}

/**
 * Creates the object of a pod that no node runs. The address is not a loopback address, because the proxy of
 * the API server rejects those.
 */
async function createPod(api: KubeApiServer, put: TestCluster['put'], name: string, port: number) {
  const found = Object.values(networkInterfaces()).flatMap(each => each ?? [])
  const podIP = found.find(({ internal, family }) => !internal && family === 'IPv4')?.address
  assert.ok(podIP, 'this machine has no address besides those of loopback')
  const labels = { 'app.kubernetes.io/name': 'tollway-operator', 'app.kubernetes.io/instance': 'tollway' }
  const container = { name: 'operator', image: 'tollway', ports: [{ name: 'http', containerPort: port }] }
  const pods = `/api/v1/namespaces/${systemNamespace}/pods`
  await put(pods, { metadata: { name, labels }, spec: { containers: [container] } })
  const status = { podIP, podIPs: [{ ip: podIP }], conditions: [{ type: 'Ready', status: 'True' }] }
  const manifest = { apiVersion: 'v1', kind: 'Pod', metadata: { name }, status }
  const { status: code } = await api.call('PATCH', `${pods}/${name}/status?fieldManager=test`, manifest)
  assert.equal(code, 200)
}
