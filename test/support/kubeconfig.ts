import { writeFileSync } from 'node:fs'

/** Writes a kubeconfig of one account, whose client trusts any server. Returns its path. */
export function writeKubeconfig(path: string, server: string, token: string, namespace: string): string {
  const named = (value: object) => [{ name: 'test', ...value }]
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: named({ cluster: { server, 'insecure-skip-tls-verify': true } }),
    users: named({ user: { token } }),
    contexts: named({ context: { cluster: 'test', user: 'test', namespace } }),
  }
  writeFileSync(path, JSON.stringify(config), { mode: 0o600 })
  return path
}
