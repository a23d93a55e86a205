import { boolean, oneOf, settingsTable, text } from '@tollway/chassis/settings.ts'
import { feedSettings } from '@tollway/xds-client/feed-settings.ts'

export const configurationSettings = settingsTable({
  configType: {
    name: 'CONFIG_TYPE',
    kind: oneOf('FILE', 'GRPC_XDS_SOTW'),
    fallback: 'FILE',
    help: 'The source of the configuration: files, or a management server.',
  },
  forceStart: {
    name: 'FORCE_START_WITHOUT_INITIAL_CONFIG',
    kind: boolean,
    fallback: 'false',
    help: 'Start to serve before the first configuration is loaded. Until then, every call is an error.',
  },
  runtimeRoot: {
    name: 'RUNTIME_ROOT',
    kind: text,
    fallback: '/srv/runtime_data/current',
    help: 'The root folder of the configuration. It is watched for changes.',
  },
  runtimeSubdirectory: {
    name: 'RUNTIME_SUBDIRECTORY',
    kind: text,
    fallback: '',
    help: 'The folder of the configuration below RUNTIME_ROOT.',
  },
  runtimeAppDirectory: {
    name: 'RUNTIME_APPDIRECTORY',
    kind: text,
    fallback: 'config',
    help: 'The folder of the YAML files below RUNTIME_SUBDIRECTORY.',
  },
  runtimeIgnoreDotFiles: {
    name: 'RUNTIME_IGNOREDOTFILES',
    kind: boolean,
    fallback: 'false',
    help: 'Ignore files and folders whose names begin with a dot.',
  },
  runtimeWatchRoot: {
    name: 'RUNTIME_WATCH_ROOT',
    kind: boolean,
    fallback: 'true',
    help: 'Reload when RUNTIME_ROOT, a symbolic link, changes. false: reload when a file changes.',
  },
  mergeDomainConfigs: {
    name: 'MERGE_DOMAIN_CONFIG',
    kind: boolean,
    fallback: 'false',
    help: 'Allow several files to share a domain.',
  },
  ...feedSettings,
})
