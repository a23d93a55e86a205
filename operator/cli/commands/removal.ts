import { setTimeout as pause } from 'node:timers/promises'
import { type Command, exitCodes } from '@tollway/chassis/command-line/command.ts'
import { optionalText, seconds, textOr } from '@tollway/chassis/command-line/option.ts'
import { parseOptions, requireOption } from '@tollway/chassis/command-line/parse-options.ts'
import { accessFromEnvironment } from '../../environments/kubernetes/api/access.ts'
import { createKubeClient, type KubeClient } from '../../environments/kubernetes/api/client.ts'
import { kindNames, kinds, podResource } from '../../environments/kubernetes/infrastructure/kinds.ts'
import { ownObjectsSelector } from '../../environments/kubernetes/infrastructure/objects/installation.ts'

const pollMs = 500
const maxNamesShown = 10
const maxListed = 100
const kindsOfOperator = [...kindNames.map(name => kinds[name]), podResource]

const options = {
  name: optionalText({
    placeholder: 'NAME',
    help: "the name of the installation, which is the name of the chart's release",
  }),
  namespace: textOr('', {
    placeholder: 'NAMESPACE',
    help: 'the namespace of the installation (default: that of the pod or of the context)',
  }),
  wait: seconds(0, { help: 'the maximum time to wait' }),
}

export const removalCommand: Command = {
  name: 'removal',
  summary: 'wait until all objects that the operator created are removed from a cluster',
  options,
  help: {
    usage: ['--name NAME [--namespace NAMESPACE] [--wait SECONDS]'],
    description: `\
Waits until a namespace has no object that the operator of an installation created, such as a Deployment.
The chart runs it after an uninstall, because helm does not wait for objects that it did not create.`,
    remarks:
      'It connects to the API server by KUBECONFIG, the service account of its pod, or ~/.kube/config, in this order.',
    exitCodes: '0 when no object remains, 1 when one remains, 2 when the API server does not answer.',
    examples: ['tollway removal --name tollway --namespace tollway-system --wait 60'],
  },
  async run(args, output) {
    const { values } = parseOptions(args, options)
    const name = requireOption('--name', values.name)
    const endMs = performance.now() + values.wait
    const access = await accessFromEnvironment(process.env)
    const namespace = values.namespace === '' ? access.namespace : values.namespace
    const client = createKubeClient(access, { random: Math.random })
    try {
      const left = await waitUntilRemoved(client, { name, namespace }, endMs)
      if (left.length === 0) return exitCodes.ok
      const shown = left.slice(0, maxNamesShown).join(', ')
      output.printError(`objects remain in ${namespace}: ${shown} (${left.length} in all)\n`)
      return exitCodes.wrong
    } catch (error) {
      output.printError(`tollway removal: ${(error as Error).message}\n`)
      return exitCodes.failed
    } finally {
      client.close()
    }
  },
}

/**
 * Resolves with the names of the objects that remain. Failed calls are repeated; rejects if the last one
 * fails.
 */
async function waitUntilRemoved(
  client: KubeClient,
  place: { readonly name: string; readonly namespace: string },
  endMs: number,
): Promise<readonly string[]> {
  for (;;) {
    const isOver = performance.now() >= endMs
    try {
      const left = await listOwnObjects(client, place)
      if (left.length === 0 || isOver) return left
    } catch (error) {
      if (isOver) throw error
    }
    await pause(pollMs)
  }
}

async function listOwnObjects(
  client: KubeClient,
  { name, namespace }: { readonly name: string; readonly namespace: string },
): Promise<readonly string[]> {
  const labelSelector = ownObjectsSelector({ name })
  const pages = await Promise.all(
    kindsOfOperator.map(async resource => {
      const { items } = await client.list(resource, { namespace, labelSelector, limit: maxListed })
      return items.map(({ metadata }) => `${resource.plural}/${metadata.name}`)
    }),
  )
  return pages.flat()
}
