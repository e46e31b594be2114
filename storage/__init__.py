"""What remembers: the store actor on SQLite, its schema, and one module a family of tables."""

from storage.database import Database, open_database
from storage.store import Store

__all__ = ["Database", "Store", "open_database"]
