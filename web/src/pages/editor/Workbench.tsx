import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { fileSchemaQuery } from '@/api/queries/benchmarks'
import { useChoices } from '@/app/choices'
import { Card } from '@/parts/Card'
import { fetched } from '@/parts/fetched'
import { Page } from '@/parts/Page'
import { Actions } from './Actions'
import { isPlain, plainOf } from './document'
import { useDraft } from './draft'
import { FileMenu } from './FileMenu'
import { FilesCard } from './FilesCard'
import { FormCard } from './FormCard'
import { PlanCard } from './PlanCard'
import { Problems } from './Problems'
import { type Files, type Format, useReading } from './reading'
import './editor.css'

const [FileEditor, fetchEditor] = fetched(() => import('./FileEditor'), 'the editor')
fetchEditor()

interface WorkbenchProps {
  title: string
  crumbs: ReactNode
  lead: string
  /** Where the unsaved text is kept in this tab. */
  draft: string
  start: string
  files?: Files
  stored?: { name: string; version: number }
  chooser?: ReactNode
}

/** Form, file and plan of one benchmark: three views of the same text. */
export function Workbench({ title, crumbs, lead, draft, start, files: known = {}, stored, chooser }: WorkbenchProps) {
  const { text, setText, restart } = useDraft(draft, start)
  const [files, setFiles] = useState<Files>(known)
  const [goTo, setGoTo] = useState<{ line: number } | null>(null)
  const { text: chosen, choose } = useChoices()
  const format: Format = chosen('format') === 'toml' ? 'toml' : 'yaml'
  const reading = useReading(text, format, files)
  const schema = useQuery(fileSchemaQuery())
  const plain = format === 'yaml' ? plainOf(text) : null
  const written = { text, format, files, stored, onDone: restart }
  const open = (opened: string, kind: Format) => {
    setText(opened)
    choose({ format: kind === 'yaml' ? '' : kind }, true)
  }
  return (
    <Page
      title={title}
      crumbs={crumbs}
      lead={lead}
      actions={<Actions written={written} isWrong={reading.problems.length > 0} />}
    >
      {chooser}
      <div className="bench">
        <div>
          <FormCard plain={plain} text={text} onText={setText} format={format} />
          <FilesCard files={files} onFiles={setFiles} />
        </div>
        <div>
          <Card
            title="File"
            aside={
              <FileMenu text={text} format={format} isChanged={text !== start} onRestart={restart} onOpen={open} />
            }
          >
            <FileEditor
              text={text}
              onText={setText}
              problems={reading.problems}
              schema={isPlain(schema.data) ? schema.data : undefined}
              goTo={goTo}
            />
            <p className="quiet beneath">
              Ctrl-Space completes. Secrets stay outside: write <code>$&#123;env:NAME&#125;</code>.
            </p>
            <Problems problems={reading.problems} isWaiting={reading.isWaiting} onLine={(line) => setGoTo({ line })} />
          </Card>
          <PlanCard reading={reading} />
        </div>
      </div>
    </Page>
  )
}
