import { KubeConfig } from '@kubernetes/client-node'

/**
 * Creates the library's reader of kubeconfig files. Nothing else is used from the library. The import by name
 * lets a bundle leave out the library's models of all kinds, which are most of it.
 */
export function createKubeConfig(): KubeConfig {
  return new KubeConfig()
}
