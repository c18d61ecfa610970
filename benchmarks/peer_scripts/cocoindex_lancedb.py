"""CocoIndex to LanceDB, as its example of code embedding has it, with a full-text index declared as well."""

from __future__ import annotations

import asyncio
import pathlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import cocoindex as coco
from cocoindex.connectors import lancedb, localfs
from cocoindex.ops.sentence_transformers import SentenceTransformerEmbedder
from cocoindex.ops.text import RecursiveSplitter, detect_code_language
from cocoindex.resources.chunk import Chunk
from cocoindex.resources.file import FileLike, PatternFilePathMatcher
from cocoindex.resources.id import IdGenerator
from numpy.typing import NDArray

from benchmarks.peer_scripts.measuring import main
from benchmarks.peer_scripts.tool import Kind, LookedUpModel, Tool

_TABLE = "code_embeddings"
DATABASE = coco.ContextKey[lancedb.LanceAsyncConnection]("database")
EMBEDDER = coco.ContextKey[SentenceTransformerEmbedder]("embedder", detect_change=True)
ROOT = coco.ContextKey[pathlib.Path]("root")
_splitter = RecursiveSplitter()


@dataclass
class Row:
    """One chunk."""

    id: int
    filename: str
    code: str
    embedding: Annotated[NDArray, EMBEDDER]
    start_line: int
    end_line: int


@coco.fn
async def index_chunk(
    chunk: Chunk, filename: pathlib.PurePath, ids: IdGenerator, table: lancedb.TableTarget[Row]
) -> None:
    """Declare a chunk's row."""
    table.declare_row(
        row=Row(
            id=await ids.next_id(chunk.text),
            filename=str(filename),
            code=chunk.text,
            embedding=await coco.use_context(EMBEDDER).embed(chunk.text),
            start_line=chunk.start.line,
            end_line=chunk.end.line,
        )
    )


@coco.fn(memo=True)
async def index_file(file: FileLike, table: lancedb.TableTarget[Row]) -> None:
    """Split a file, with the sizes of the example."""
    text = await file.read_text()
    language = detect_code_language(filename=str(file.file_path.path.name))
    chunks = _splitter.split(text, chunk_size=1000, min_chunk_size=300, chunk_overlap=300, language=language)
    await coco.map(index_chunk, chunks, file.file_path.path, IdGenerator(), table)


@coco.fn
async def index_folder(folder: pathlib.Path) -> None:
    """Keep the table equal to the folder."""
    schema = await lancedb.TableSchema.from_class(Row, primary_key=["id"])
    table = await lancedb.mount_table_target(DATABASE, table_name=_TABLE, table_schema=schema)
    table.declare_fts_index(column="code")
    matcher = PatternFilePathMatcher(included_patterns=["**/*.py", "**/*.md"])
    files = localfs.walk_dir(folder, recursive=True, path_matcher=matcher)
    await coco.mount_each(index_file, files.items(), table)


class CocoIndex(Tool):
    """One app at a time, over one environment."""

    name = "CocoIndex to LanceDB"
    packages = ("cocoindex", "lancedb", "sentence-transformers", "torch")
    _environment: coco.Environment | None = None

    def load(self) -> None:
        """See `Tool.load`."""
        self._loop = asyncio.new_event_loop()
        self._embedder = SentenceTransformerEmbedder(str(self.model))
        model = self._embedder._get_model()
        model.encode(["warm"])
        self._embedder._model = LookedUpModel(model, self.vectors)  # type: ignore[assignment]

    def begin(self, place: Path) -> None:
        """See `Tool.begin`."""
        self.close()
        place.mkdir(parents=True)
        self._connection: Any = self._wait(lancedb.connect_async(str(place / "lancedb")))
        context = coco.ContextProvider()
        context.provide(DATABASE, self._connection)
        context.provide(EMBEDDER, self._embedder)
        settings = coco.Settings(db_path=place / "state")
        self._environment = coco.Environment(settings, context_provider=context)
        config = coco.AppConfig(name=f"Bench{place.name}", environment=self._environment)
        self._app = coco.App(config, index_folder, self.corpus)

    def refresh(self) -> None:
        """See `Tool.refresh`."""
        self._app.update_blocking()

    def chunks(self) -> int:
        """See `Tool.chunks`."""
        return self._wait(self._table().count_rows())

    def search(self, text: str, kind: Kind, limit: int) -> list[str]:
        """Vector search as in the example; hybrid by LanceDB's own, with its reciprocal rank fusion."""
        return self._wait(self._search(text, kind, limit))

    async def _search(self, text: str, kind: Kind, limit: int) -> list[str]:
        table = await self._connection.open_table(_TABLE)
        (vector,) = self.vectors.of([text], self._embedder._get_model().encode)
        query = table.query().nearest_to(vector)
        if kind == "hybrid":
            query = query.nearest_to_text(text, columns=["code"]).rerank()
        rows = await query.limit(limit).select(["filename", "code"]).to_list()
        return [self._relative(row["filename"]) for row in rows]

    def _relative(self, filename: str) -> str:
        path = Path(filename)
        return path.relative_to(self.corpus).as_posix() if path.is_absolute() else path.as_posix()

    def _table(self) -> Any:
        return self._wait(self._connection.open_table(_TABLE))

    def _wait(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """See `Tool.close`."""
        if self._environment is not None:
            self._environment.close()


if __name__ == "__main__":
    main(CocoIndex)
