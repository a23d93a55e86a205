import { boolean, oneOf, settingsTable, text } from '@tollway/chassis/settings.ts'
import { feedSettings } from '@tollway/discovery/feed-settings.ts'

/** Where the configuration comes from. */
export const configurationSettings = settingsTable({
  configType: {
    name: 'CONFIG_TYPE',
    kind: oneOf('FILE', 'GRPC_XDS_SOTW'),
    fallback: 'FILE',
    help: 'Where the configuration comes from: files, or a management server.',
  },
  forceStart: {
    name: 'FORCE_START_WITHOUT_INITIAL_CONFIG',
    kind: boolean,
    fallback: 'false',
    help: 'Serve before the first configuration is loaded; every call is an error until then.',
  },
  runtimeRoot: {
    name: 'RUNTIME_ROOT',
    kind: text,
    fallback: '/srv/runtime_data/current',
    help: 'The root folder, which is watched.',
  },
  runtimeSubdirectory: {
    name: 'RUNTIME_SUBDIRECTORY',
    kind: text,
    fallback: '',
    help: 'A folder below the root.',
  },
  runtimeAppDirectory: {
    name: 'RUNTIME_APPDIRECTORY',
    kind: text,
    fallback: 'config',
    help: 'The folder of YAML files below the subdirectory.',
  },
  runtimeIgnoreDotFiles: {
    name: 'RUNTIME_IGNOREDOTFILES',
    kind: boolean,
    fallback: 'false',
    help: 'Leave out files and folders whose name begins with a dot.',
  },
  runtimeWatchRoot: {
    name: 'RUNTIME_WATCH_ROOT',
    kind: boolean,
    fallback: 'true',
    help: 'Reload when the root, a symbolic link, is swapped; otherwise when a file changes.',
  },
  mergeDomainConfigs: {
    name: 'MERGE_DOMAIN_CONFIG',
    kind: boolean,
    fallback: 'false',
    help: 'Allow several files to share a domain.',
  },
  ...feedSettings,
})
